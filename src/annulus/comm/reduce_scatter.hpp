// Sums arrays over ranks; every rank gets only its own piece of the sum, and no rank ever holds the whole sum.
#pragma once

#include <functional>
#include <vector>

#include "annulus/comm/exchange.hpp"

namespace annulus::comm {

/// Adds up, over all ranks, an array of numbers of `precision`. The array is divided into one piece per rank; the
/// piece of rank p has numbers[p] numbers.
///   make(p, piece)  writes into `piece` what this rank adds to rank p's piece; not called for an empty piece. A
///                   message may be in flight meanwhile, so `make` should call exchange.progress() now and then
///   sum             becomes the sum of this rank's piece
/// Blocking and collective; needs memory for three more pieces. The order of additions is own rank, rank - 1, rank - 2,
/// ..., so that runs on equally many ranks give the same bits. Returns {bytes sent, bytes received}.
/// Worked example: 2 ranks, numbers {1, 1}; rank 0 makes (1, 2), rank 1 makes (10, 20). Then `sum` is 11 on rank 0 and
/// 22 on rank 1.
std::pair<Index, Index> reduce_scatter(const Communicator& comm, Exchange& exchange, core::Precision precision,
                                       const std::vector<Index>& numbers,
                                       const std::function<void(int rank, void* piece)>& make, void* sum);

}  // namespace annulus::comm
