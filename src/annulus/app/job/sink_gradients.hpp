// Gradients of sink logits of a run in units: each unit adds to those of its heads, exactly (kernels/exact_sum.hpp),
// and what it adds stands in the journal beside the word that it is finished. So dsink has the same bits however often
// the run was interrupted, and in whatever order units were made.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "annulus/app/job/job.hpp"
#include "annulus/store/output_file.hpp"

namespace annulus::app {

/// Sums (heads, kernels::exact_words) of heads from `first_head` on as a line of text: numbers of words that are not 0,
/// and the words.
std::string sink_note(Index first_head, const std::vector<std::int64_t>& sums);

/// The gradients (H) that the notes of all units come to. Throws Error(failure) where one is no note.
std::vector<double> sink_gradients(const std::vector<std::string>& notes, Index heads);

/// Writes them as dsink; collective. `notes` is asked on rank 0. Throws the same Error(failure) on every rank, also
/// where one of them is no number.
void write_dsink(const Job& job, const std::function<std::vector<std::string>()>& notes, store::OutputFile& file,
                 const comm::Communicator& comm);

}  // namespace annulus::app
