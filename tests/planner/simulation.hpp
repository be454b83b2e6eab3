// What jitter costs ranks that wait for each other: simulates the hop loop as discrete events, without MPI and clocks.
//
// A rank is ready for hop h + 1 when its kernel is done with hop h, the block for hop h + 1 has arrived, and its own
// message has been sent. A message starts when both ranks have posted it, at the start of their hop h. The machine's
// `overlap` is the share of a transfer that compute hides. Every compute time is multiplied by 1 + jitter x E, where E
// is an exponential random number with mean 1; the numbers are drawn hop by hop, in a hop rank by rank, from `seed`.
//
// Worked example: 2 ranks, 1 hop, compute 3 s and 1 s, transfer 2 s, fully hidden. Both post at 0 s, blocks arrive at
// 2 s. Rank 0 computes until 3 s, rank 1 waits from 1 s to 2 s; then each computes once more: they end at 6 s and 3 s.
#pragma once

#include <functional>
#include <vector>

#include "annulus/core/machine.hpp"
#include "annulus/strategies/strategy.hpp"

namespace annulus::planner {

/// Which ranks must be ready before a block can arrive. Hop 0 computes on own rows; the first block arrives during it.
///   neighbours  during hop h a block comes from rank - 1, another goes to rank + 1
///   rotation    during hop h a block comes from rank - h - 1, another goes to rank + h + 1
///   one_sided   blocks as in rotation, but a rank reads them: the owner need not be ready, and sends nothing
enum class Coupling { neighbours, rotation, one_sided };

struct HopSchedule {
  int ranks = 1;
  int hops = 0;
  Coupling coupling = Coupling::neighbours;
  double overlap = 1;                                 ///< share of a transfer that compute hides
  std::function<double(int rank, int hop)> compute;   ///< in seconds, for hop 0 ... hops
  std::function<double(int rank, int hop)> transfer;  ///< in seconds, of what arrives during hop 0 ... hops - 1
};

/// Seconds after which each rank is done. Takes O(ranks x hops) time.
std::vector<double> simulate(const HopSchedule& schedule, double jitter, std::uint64_t seed);

/// The hops of a schedule without groups and with a single round. It times each hop of each rank, which
/// is feasible for tens of ranks.
HopSchedule timed(const strategies::Schedule& schedule, Coupling coupling, const core::Machine& machine);

}  // namespace annulus::planner
