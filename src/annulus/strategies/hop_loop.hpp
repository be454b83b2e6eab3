// The one loop behind every strategy that passes K/V round in hops, blocking or overlapped.
#pragma once

#include "annulus/strategies/strategy.hpp"

namespace annulus::strategies {

/// When a hop's messages travel.
///   overlapped  started before the kernel works on the block in hand, completed after it; two receive buffers
///   blocking    between two kernel calls, even ranks sending first; nothing hidden
enum class HopMode { overlapped, blocking };

/// Predicted cost of forward_in_hops() for one rank.
Prediction predict_hops(const Problem& problem, const pattern::Partition& partition,
                        const std::vector<pattern::Hop>& hops, int rank);

/// Computes out and lse of this rank's rows: own keys first, then the rows that each hop brings. No rank holds more
/// than its own rows and two received blocks, whatever P is.
core::RankMetrics forward_in_hops(const Problem& problem, const pattern::Partition& partition,
                                  const std::vector<pattern::Hop>& hops, HopMode mode, const comm::Communicator& comm,
                                  Tensors& tensors, const Progress& progress);

}  // namespace annulus::strategies
