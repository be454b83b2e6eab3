// Words that were nearly right.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace annulus::runfile {

/// ", did you mean 'x'?" for the candidate nearest to `word`, or nothing when none is near. Capitals do not count, and
/// other programs' names are known: bf16, half, yes.
std::string suggest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace annulus::runfile
