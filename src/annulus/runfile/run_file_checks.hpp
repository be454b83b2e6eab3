// Checks whether settings, each of which is valid alone, fit each other.
#pragma once

#include "annulus/runfile/run_file.hpp"

namespace annulus::runfile {

/// Why tensors of this shape cannot be made: which extent to change, and what is wrong with it.
struct Objection {
  std::string extent;
  std::string reason;
};
std::optional<Objection> objection_to(const core::Shape& shape);

/// Sets what follows from other settings (kv_heads), and refuses missing and contradictory settings. Throws
/// Error(usage) at the key to change. `segments` and `dilations` are the lengths of the two lists.
void complete_and_check(RunFile& run, std::size_t segments, std::size_t dilations);

/// Refuses an output file that is also an input, another output, or the run file. `read_through_input`: other files
/// that hold parts of input.file's datasets, once they are known. Throws Error(usage).
void check_output(const RunFile& run, const std::vector<std::string>& read_through_input = {});

}  // namespace annulus::runfile
