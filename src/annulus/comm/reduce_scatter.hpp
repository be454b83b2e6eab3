// Sums over ranks that no rank ever holds in full: every rank ends up with its own piece of the sum.
#pragma once

#include <functional>
#include <vector>

#include "annulus/comm/exchange.hpp"

namespace annulus::comm {

/// Adds up over all ranks an array of numbers of `precision` that is cut into one piece per rank, numbers[p] long.
///   make(p, piece)  writes this rank's share of rank p's piece; not called for an empty one. While a piece travels the
///                   next one is made: it may call exchange.progress() now and then
///   sum             becomes this rank's piece, summed
/// Blocking and collective; beside `sum` three pieces are held. Additions go in the order own rank, rank - 1, rank - 2,
/// ..., so that the same number of ranks gives the same bits. Returns {bytes sent, bytes received}.
/// Worked example: 2 ranks, numbers {1, 1}; rank 0 makes (1, 2), rank 1 makes (10, 20): the sums are 11 and 22.
std::pair<Index, Index> reduce_scatter(const Communicator& comm, Exchange& exchange, core::Precision precision,
                                       const std::vector<Index>& numbers,
                                       const std::function<void(int rank, void* piece)>& make, void* sum);

}  // namespace annulus::comm
