// Clocks of ranks: each machine's begins at another moment and runs at a pace of its own.
#pragma once

#include <functional>

#include "annulus/comm/communicator.hpp"
#include "annulus/core/metrics.hpp"

namespace annulus::comm {

/// By how much rank 0's clock was ahead when this rank's showed `at`; all in seconds. The truth is at most `error` away
/// from it.
struct ClockOffset {
  double at = 0;
  double ahead = 0;
  double error = 0;
};

/// Compares this rank's clock with rank 0's, as messages there and back allow (Cristian 1989): rank 0's time is taken
/// for that in the middle between sending and receiving, of the fastest of some messages. Collective; ranks take turns.
ClockOffset compare_clocks(const Communicator& comm, const std::function<double()>& now = core::wall_seconds);

/// That of the smaller error.
ClockOffset better(const ClockOffset& first, const ClockOffset& last);

/// A time of this rank's clock as rank 0's shows it, by two comparisons. Where they differ by more than their errors
/// the clocks drift, evenly; else there is one offset, that of the better comparison, and lengths of time stay as they
/// are.
double to_root_clock(const ClockOffset& first, const ClockOffset& last, double time);

}  // namespace annulus::comm
