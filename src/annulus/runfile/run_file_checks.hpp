// Settings that are each right and do not fit each other.
#pragma once

#include "annulus/runfile/run_file.hpp"

namespace annulus::runfile {

/// Why no tensors of this shape can be made: the extent to change, and what is wrong with it.
struct Objection {
  std::string extent;
  std::string reason;
};
std::optional<Objection> objection_to(const core::Shape& shape);

/// Fills in what follows from other settings (kv_heads) and refuses what is missing or contradicts itself. Throws
/// Error(usage) with the location of the key to change. `segments` and `dilations` are the lengths of the two lists.
void complete_and_check(RunFile& run, std::size_t segments, std::size_t dilations);

/// Refuses an output that is an input, another output, or the run file. `read_through_input` are files that datasets of
/// input.file are made of, once they are known. Throws Error(usage).
void check_output(const RunFile& run, const std::vector<std::string>& read_through_input = {});

}  // namespace annulus::runfile
