// What is printed of the table of verbs beside --help: a manual page, and what shells complete. The build writes them
// to files that `cmake --install` puts where man, bash and zsh look. Both are printed without MPI.
//
//   annulus --manual            annulus --completion bash            annulus --completion zsh
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "annulus/app/verbs/verb.hpp"

namespace annulus::app {

/// annulus.1, in the macros of man(7).
std::string manual_page(const std::vector<Verb>& verbs);

/// What a shell reads to complete words behind `annulus`: no file and no program is asked when it does.
std::string bash_completion(const std::vector<Verb>& verbs);
std::string zsh_completion(const std::vector<Verb>& verbs);

/// Prints what the words ask for, or says what is wrong with them, and returns the exit status; none: they ask for none
/// of these.
std::optional<int> print_page(int argc, char** argv);

}  // namespace annulus::app
