// What jitter does to ranks that wait for each other: the hop loop as discrete events, without MPI and without clocks.
//
// A rank is ready for hop h + 1 when its kernel is done with hop h, its block has arrived, and its own message is gone.
// A message starts when both ends have posted it, at the start of their hop h. Of t seconds of transfer, compute hides
// the machine's overlap share. Every compute time is stretched by 1 + jitter x E, E exponential with mean 1, drawn from
// (seed, rank, hop) in one fixed order.
//
// Worked example: 2 ranks, 1 hop, compute 3 s and 1 s, transfer 2 s, all hidden: both post at 0, the block is there at
// 2; rank 0 is done with its rows at 3, rank 1 waits from 1 to 2; then one more compute each: 6 s and 3 s.
#pragma once

#include <functional>
#include <vector>

#include "annulus/core/machine.hpp"
#include "annulus/strategies/strategy.hpp"

namespace annulus::planner {

/// Who must be ready for a block to arrive.
///   neighbours  hop h: from rank - 1, to rank + 1
///   rotation    hop h: from rank - h, to rank + h
///   one_sided   the same blocks, read without the owner's help and without sending
enum class Coupling { neighbours, rotation, one_sided };

struct HopSchedule {
  int ranks = 1;
  int hops = 0;
  Coupling coupling = Coupling::neighbours;
  double overlap = 1;                                 ///< share of a transfer that compute hides
  std::function<double(int rank, int hop)> compute;   ///< seconds; hops 0 ... hops
  std::function<double(int rank, int hop)> transfer;  ///< seconds of what arrives during hop 0 ... hops - 1
};

/// Seconds at which each rank is done. Costs O(ranks x hops).
std::vector<double> simulate(const HopSchedule& schedule, double jitter, std::uint64_t seed);

/// The hops of a schedule without groups of a single round, timed rank by rank: for tens of ranks, not thousands.
HopSchedule timed(const strategies::Schedule& schedule, Coupling coupling, const core::Machine& machine);

}  // namespace annulus::planner
