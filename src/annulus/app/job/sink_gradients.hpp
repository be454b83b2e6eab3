// Gradients of sink logits in a run that is cut into units. Each unit makes exact sums for its heads
// (kernels/exact_sum.hpp). The journal's line that says that the unit is finished contains these sums. So dsink has the
// same bits for any order of units, however often the run is interrupted.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "annulus/app/job/job.hpp"
#include "annulus/store/output_file.hpp"

namespace annulus::app {

/// Writes sums (heads, kernels::exact_words), whose first head is `first_head`, as one line of text: the index and
/// the value of each word that is not 0.
std::string sink_note(Index first_head, const std::vector<std::int64_t>& sums);

/// Adds the sums in the notes of all units, and returns the gradients (H). Throws Error(failure), which names
/// `journal`, if a note is not valid.
std::vector<double> sink_gradients(const std::vector<std::string>& notes, Index heads, const std::string& journal);

/// Writes the gradients as dsink. `notes` is called on rank 0. Collective; throws the same Error(failure) on every rank
/// if a note is not valid, or a gradient is NaN or infinite.
void write_dsink(const Job& job, const std::function<std::vector<std::string>()>& notes, store::OutputFile& file,
                 const comm::Communicator& comm);

}  // namespace annulus::app
