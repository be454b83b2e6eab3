// The command line: words in, one verb with its options out.
#pragma once

#include <optional>
#include <string>

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

}  // namespace annulus::app
