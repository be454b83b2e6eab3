// K/V heads that several ranks keep, because their query heads read the same one.
#pragma once

#include "annulus/layer/layer.hpp"
#include "annulus/layer/matrix.hpp"

namespace annulus::layer {

/// `gradient` (in, this rank's K/V heads * D, no gaps) has what this rank's query heads give to the weight of each of
/// its K/V heads: adds what other ranks give to the heads that they keep too, in the order of the ranks, so that all
/// who keep a head get the same bits. Collective. Returns {bytes sent, bytes received}.
/// Worked example: 4 query heads on 4 ranks, 2 K/V heads: ranks 0 and 1 add up head 0, ranks 2 and 3 head 1.
std::pair<Index, Index> sum_shared_heads(const LayerProblem& problem, const comm::Communicator& comm,
                                         const Matrix& gradient);

}  // namespace annulus::layer
