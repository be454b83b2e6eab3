// Reads the words of the command line, and returns one verb with its options.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "annulus/app/verbs/verb.hpp"

namespace annulus::app {

struct CommandLine {
  std::optional<Verb> verb;  ///< empty after help or an error: no verb runs, and the program ends with `status`
  int status = 0;
  std::string text;  ///< the complete command line, "annulus run my.yaml"
};

/// Every rank parses the same words and gets the same result. Only a rank with `prints` prints help on stdout and
/// errors on stderr.
CommandLine parse_command_line(int argc, char** argv, bool prints);

// The next function explains mistakes that a parser of options would only call "unexpected": a list that the shell cut
// at a space, a misspelt option, or an option for the number of ranks, which only the launcher has.

/// Returns what is wrong with the words after a verb, and what to write instead. Returns "" if the parser can continue;
/// the parser then checks values and finds missing options. `verb` is empty for words before any verb.
std::string complaint_of_words(const std::string& verb, const std::vector<Option>& options,
                               const std::vector<std::string>& words);

}  // namespace annulus::app
