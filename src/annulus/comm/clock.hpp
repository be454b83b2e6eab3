// Compares the clocks of ranks: each machine's clock starts at another moment and runs at its own pace.
#pragma once

#include <functional>

#include "annulus/comm/communicator.hpp"
#include "annulus/core/metrics.hpp"

namespace annulus::comm {

/// How far rank 0's clock was ahead when this rank's clock showed `at`, in seconds. The true value differs by at most
/// `error`.
struct ClockOffset {
  double at = 0;
  double ahead = 0;
  double error = 0;
};

/// Compares this rank's clock with rank 0's by messages there and back (Cristian 1989). Rank 0's answer is taken as the
/// time midway between sending and receiving; the fastest message counts. Collective; ranks take turns.
ClockOffset compare_clocks(const Communicator& comm, const std::function<double()>& now = core::wall_seconds);

/// The comparison with the smaller error.
ClockOffset better(const ClockOffset& first, const ClockOffset& last);

/// Converts a time of this rank's clock to rank 0's clock, by two comparisons. If these differ by more than their
/// errors, the clocks are taken to drift evenly. Otherwise the offset of the better comparison is used for all times,
/// which leaves durations unchanged.
double to_root_clock(const ClockOffset& first, const ClockOffset& last, double time);

}  // namespace annulus::comm
