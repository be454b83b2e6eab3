// Keys of score 0 and value 0 that are nowhere stored: running softmaxes start with them.
#pragma once

#include "annulus/core/work_item.hpp"
#include "annulus/kernels/attention.hpp"

namespace annulus::kernels {

/// Lets rows of states that have seen no key, but for those of other such lists, begin with filled-in keys: what a key
/// of score 0 and value 0 leaves behind (nothing in score_sum), count times and by one multiplication. Sums are
/// rescaled and merged exactly, so attend() and finish() need not know. Complete on return.
void add_filled_keys(const core::FilledRuns& runs, State& state);

}  // namespace annulus::kernels
