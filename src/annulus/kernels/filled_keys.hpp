// Adds filled-in keys (filled_in() in reference.hpp): they have score 0 and value 0, and are stored nowhere.
#pragma once

#include "annulus/core/work_item.hpp"
#include "annulus/kernels/attention.hpp"

namespace annulus::kernels {

/// Starts the softmax of rows with the filled-in keys of `runs`. Before the call the rows may have seen only keys that
/// earlier calls of this function added. Keys of score 0 and value 0 change l, but not acc and score_sum, so one
/// multiplication adds all filled-in keys of a row. Later calls of attend() and finish() treat these rows like all
/// others. Complete on return.
void add_filled_keys(const core::FilledRuns& runs, State& state);

}  // namespace annulus::kernels
