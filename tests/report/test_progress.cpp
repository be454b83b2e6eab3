// The text of the progress line.
#include "annulus/report/progress.hpp"

#include <gtest/gtest.h>

#include "annulus/core/metrics.hpp"

namespace annulus::report {
namespace {

const ProgressLine::Work gflop{240, "GFLOP"};

TEST(Progress, TellsShareRateAndTimeLeft) {
  EXPECT_EQ(progress_text(0.42, 0, 12, gflop, "hop 1 of 3"), " 42 %  hop 1 of 3, 8.4 GFLOP/s, 0:17 left");
  EXPECT_EQ(progress_text(1, 0, 10, gflop, "x"), "100 %  x, 24 GFLOP/s, 0:00 left");
  EXPECT_EQ(progress_text(0.5, 0, 10, {}, "x"), " 50 %  x, 0:10 left");
}

TEST(Progress, WorkOfEarlierLaunchesIsNoRate) {
  EXPECT_EQ(progress_text(0.5, 0.4, 10, {100, "step"}, "step 50"), " 50 %  step 50, 1 step/s, 0:50 left");
}

TEST(Progress, GuessesNothingFromNothing) {
  EXPECT_EQ(progress_text(0, 0, 10, gflop, "x"), "  0 %  x");
  EXPECT_EQ(progress_text(0.4, 0.4, 10, gflop, "x"), " 40 %  x");
}

TEST(Progress, SlowRatesAreToldByMinuteOrHour) {
  EXPECT_EQ(progress_text(0.5, 0, 600, {20, "case"}, "x"), " 50 %  x, 1 case/min, 10:00 left");
  EXPECT_EQ(progress_text(0.5, 0, 36000, {20, "case"}, "x"), " 50 %  x, 1 case/h, 10:00:00 left");
}

TEST(Progress, DurationsAreRead) {
  EXPECT_EQ(duration_text(0.4), "0:00");
  EXPECT_EQ(duration_text(12), "0:12");
  EXPECT_EQ(duration_text(3723), "1:02:03");
  EXPECT_EQ(duration_text(3 * 86400 + 5), "3 days");
}

TEST(Progress, BarsAreAsLongAsTheyAreSaidToBe) {
  EXPECT_EQ(progress_bar(0, 8), "[........]");
  EXPECT_EQ(progress_bar(0.5, 8), "[####....]");
  EXPECT_EQ(progress_bar(1, 8), "[########]");
  EXPECT_EQ(progress_bar(7, 8), "[########]");
}

TEST(Progress, ShortWorkAndOtherRanksSayNothing) {
  // Work counts as short for a second. If a busy machine took longer, the test repeats.
  for (bool is_in_time = false; !is_in_time;) {
    testing::internal::CaptureStderr();
    const double begin = core::wall_seconds();
    {
      ProgressLine quick(true, gflop), silent(false, gflop);
      quick.show(0.5, "x");
      silent.show(0.5, "x");
    }
    is_in_time = core::wall_seconds() - begin < 1;
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_TRUE(!is_in_time || said.empty()) << said;
  }
}

}  // namespace
}  // namespace annulus::report
