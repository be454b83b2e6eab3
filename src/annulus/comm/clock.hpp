// Compares the clocks of ranks, because clocks of two machines start at different moments and run at different rates.
#pragma once

#include <functional>

#include "annulus/comm/communicator.hpp"
#include "annulus/core/metrics.hpp"

namespace annulus::comm {

/// When this rank's clock showed `at`, rank 0's clock was ahead by `ahead`; all in seconds. The true difference lies
/// within `error` of `ahead`.
struct ClockOffset {
  double at = 0;
  double ahead = 0;
  double error = 0;
};

/// Compares this rank's clock with rank 0's by round trips (Cristian 1989). Rank 0 answers with its time, and we assume
/// that it read its clock in the middle of the round trip. The fastest round trip counts. Collective; ranks take turns.
ClockOffset compare_clocks(const Communicator& comm, const std::function<double()>& now = core::wall_seconds);

/// Returns the comparison with the smaller error.
ClockOffset better(const ClockOffset& first, const ClockOffset& last);

/// Converts a time of this rank's clock to rank 0's clock. If the offsets of the two comparisons differ by more than
/// the sum of their errors, the offset is interpolated linearly in time. Otherwise the offset with the smaller error is
/// used for all times, which leaves durations unchanged.
double to_root_clock(const ClockOffset& first, const ClockOffset& last, double time);

}  // namespace annulus::comm
