// Mistakes in the words of a command line that a parser of options can only call unexpected: a list cut by the shell,
// ranks asked of the program instead of the launcher, options misspelt.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace annulus::app {

struct OptionWord {
  std::string name;  ///< "--set", "-h"
  bool takes_value = false;
};

/// What a verb understands.
struct VerbWords {
  std::string verb;
  std::vector<OptionWord> options;
  bool takes_file = false;  ///< one word that belongs to no option: the run file
};

/// What is wrong with the words that follow the verb, and what to write instead; empty where the parser can go on (it
/// still judges values and what is missing).
std::string complaint_of_words(const VerbWords& known, const std::vector<std::string>& words);

}  // namespace annulus::app
