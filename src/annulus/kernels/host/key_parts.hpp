// Tasks own query rows, so few query rows against many keys (64 latents that read 200,000 rows) make fewer tasks than a
// node has threads. Then the keys are cut into parts. Each part of an item has states of its own, as if it belonged to
// other rows, and merge_states() puts them together (split-KV of FlashDecoding, Dao et al. 2023).
//
// Example: rows 0 ... 63 of one head, keys 0 ... 19,999, 4 parts. Row i of part p is row 64 p + i of the parts' states
// and of a copy of q; part 0 sees the keys 15,000 ... 19,999, part 3 the keys 0 ... 4,999.
#pragma once

#include "annulus/kernels/attention.hpp"

namespace annulus::kernels::host {

/// How many parts the keys of a list are cut into: enough to make tasks for a large node, but so that no part has few
/// keys. It is a function of the list and the states alone, so that bits do not depend on the number of threads. 1: the
/// keys stay together, as they do where results are to be the same for any cut.
core::Index key_parts(const core::WorkList& work, const State& state);

/// The list with the keys of each item in `parts`, for states of parts * rows rows.
core::WorkList in_parts(const core::WorkList& work, core::Index rows, core::Index parts);

/// Query rows as the list of in_parts() sees them: q of (B, rows, H, D), `parts` times in turn.
core::Buffer repeated(const core::TensorView& q, const core::Shape& shape, core::Index rows, core::Index parts);

}  // namespace annulus::kernels::host
