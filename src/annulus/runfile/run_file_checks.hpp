// Checks whether settings that are valid one by one also fit each other.
#pragma once

#include "annulus/runfile/run_file.hpp"

namespace annulus::runfile {

/// Says why tensors cannot be generated: the extent to change, and what is wrong with this extent.
struct Objection {
  std::string extent;
  std::string reason;
};
std::optional<Objection> objection_to(const GenerateSettings& settings);  ///< empty: no objection

/// Sets what follows from other settings, such as kv_heads. Throws an Error(usage) that names the key to change if
/// settings are missing or contradict each other. `segments`, `dilations`: the lengths of these lists in the run file.
void complete_and_check(RunFile& run, std::size_t segments, std::size_t dilations);

/// Refuses an output that is also an input, another output, or the run file; also an output whose name differs from the
/// name of an input or another output only by .part, .journal or .previous. `read_through_input`: other files that hold
/// parts of input.file's datasets; they are known only after input.file was opened. Throws Error(usage).
void check_output(const RunFile& run, const std::vector<std::string>& read_through_input = {});

}  // namespace annulus::runfile
