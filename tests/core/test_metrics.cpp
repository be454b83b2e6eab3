#include "annulus/core/metrics.hpp"

#include <gtest/gtest.h>

namespace annulus::core {
namespace {

/// Wall and CPU seconds that spend_a_millisecond() measured while it kept a processor busy.
struct Spent {
  double wall = 0, cpu = 0;
};
Spent spend_a_millisecond() {
  const double start = wall_seconds(), cpu = cpu_seconds();
  while (wall_seconds() - start < 1e-3 || cpu_seconds() == cpu) {
  }
  return {wall_seconds() - start, cpu_seconds() - cpu};
}

// Measured times are compared with times measured around and inside the work, so a slow machine makes no test fail.
TEST(Metrics, TimedWaitAddsTheTimeOfTheWorkAndNothingElse) {
  HopMetrics metrics;
  for (int time = 1; time <= 2; ++time) {
    const double before = metrics.wait_seconds, start = wall_seconds();
    double inside = 0;
    timed_wait(metrics, [&] { inside = spend_a_millisecond().wall; });
    EXPECT_GE(metrics.wait_seconds - before, inside * (1 - 1e-12));
    EXPECT_LE(metrics.wait_seconds - before, (wall_seconds() - start) * (1 + 1e-12));
  }
  EXPECT_EQ(metrics.compute_seconds, 0);
  EXPECT_EQ(metrics.kernel_cpu_seconds, 0);
}

TEST(Metrics, TimedComputeAddsBothClocksAndIsNoWaiting) {
  HopMetrics metrics;
  for (int time = 1; time <= 2; ++time) {
    const HopMetrics before = metrics;
    Spent inside;
    timed_compute(metrics, [&] { inside = spend_a_millisecond(); });
    EXPECT_GE(metrics.compute_seconds - before.compute_seconds, inside.wall * (1 - 1e-12));
    EXPECT_GE(metrics.kernel_cpu_seconds - before.kernel_cpu_seconds, inside.cpu * (1 - 1e-12));
  }
  EXPECT_EQ(metrics.wait_seconds, 0);
}

TEST(Metrics, TotalSumsEveryColumn) {
  const RankMetrics metrics{7, {{1, 2, 3, 4, 5, 6, 7}, {10, 20, 30, 40, 50, 60, 70}}};
  const HopMetrics sum = metrics.total();
  EXPECT_EQ(sum.compute_seconds, 11);
  EXPECT_EQ(sum.kernel_cpu_seconds, 22);
  EXPECT_EQ(sum.wait_seconds, 33);
  EXPECT_EQ(sum.bytes_sent, 44);
  EXPECT_EQ(sum.bytes_received, 55);
  EXPECT_EQ(sum.rows_received, 66);
  EXPECT_EQ(sum.kept, 77);
}

}  // namespace
}  // namespace annulus::core
