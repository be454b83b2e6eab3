// Keys of score 0 and value 0, which are not stored: running softmaxes start with them.
#pragma once

#include "annulus/core/work_item.hpp"
#include "annulus/kernels/attention.hpp"

namespace annulus::kernels {

/// Starts the softmax of rows with filled-in keys. Before it, rows must not have seen any keys but those of other such
/// lists. Adds what keys of score 0 and value 0 add (nothing to score_sum), all of a row's keys by one multiplication.
/// Sums are rescaled and merged exactly, so attend() and finish() need not know of these keys. Complete on return.
void add_filled_keys(const core::FilledRuns& runs, State& state);

}  // namespace annulus::kernels
