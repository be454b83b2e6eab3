// The command line: words in, one verb with its options out.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "annulus/app/verbs/verb.hpp"

namespace annulus::app {

struct CommandLine {
  std::optional<Verb> verb;  ///< empty: help was given, or a mistake named, and the program ends with `status`
  int status = 0;
  std::string text;  ///< all words, "annulus run my.yaml"
};

/// Every rank parses the same words and comes to the same end; the one that `speaks` prints help on stdout and
/// complaints on stderr.
CommandLine parse_command_line(int argc, char** argv, bool speaks);

// Mistakes that a parser of options can only call unexpected: a list cut by the shell, ranks asked of the program
// instead of the launcher, options misspelt.

/// What is wrong with the words that follow a verb, and what to write instead; empty where the parser can go on (it
/// still judges values and what is missing). Without a name: words in front of any verb.
std::string complaint_of_words(const std::string& verb, const std::vector<Option>& options,
                               const std::vector<std::string>& words);

}  // namespace annulus::app
