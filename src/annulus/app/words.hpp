// Mistakes in the words of a command line that a parser of options can only call unexpected: a list cut by the shell,
// ranks asked of the program instead of the launcher, options misspelt.
#pragma once

#include <string>
#include <vector>

#include "annulus/app/verbs/verb.hpp"

namespace annulus::app {

/// What is wrong with the words that follow a verb, and what to write instead; empty where the parser can go on (it
/// still judges values and what is missing). Without a name: words in front of any verb.
std::string complaint_of_words(const std::string& verb, const std::vector<Option>& options,
                               const std::vector<std::string>& words);

}  // namespace annulus::app
