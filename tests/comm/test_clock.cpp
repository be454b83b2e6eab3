// Clocks that differ by hours and run at different rates; and texts that rank 0 takes in the order of the ranks.
#include "annulus/comm/clock.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "annulus/comm/in_turn.hpp"

namespace annulus::comm {
namespace {

/// The clock of rank r: it shows r hours less than rank 0's clock, and is slower by r in a thousand.
struct Clock {
  int rank;
  double origin = core::wall_seconds();

  double show(double time) const { return (1 - 1e-3 * rank) * time - 3600.0 * rank; }
  double operator()() const { return show(core::wall_seconds()); }
};

TEST(Clock, IsComparedToWithinHalfTheTimeOfAMessageThereAndBack) {
  const Communicator comm(MPI_COMM_WORLD);
  const Clock clock{comm.rank()};
  const ClockOffset found = compare_clocks(comm, clock);
  if (comm.is_root()) {
    EXPECT_EQ(found.ahead, 0);
    EXPECT_EQ(found.error, 0);
    return;
  }
  ASSERT_TRUE(std::isfinite(found.error));
  // All ranks are on one machine, and rank 0's clock is not changed, so it shows `truth` when this rank's clock shows
  // `at`.
  const double truth = (found.at + 3600.0 * comm.rank()) / (1 - 1e-3 * comm.rank());
  EXPECT_LE(std::abs(found.at + found.ahead - truth), 1.01 * found.error + 1e-7);
  EXPECT_GT(found.error, 0);
}

TEST(Clock, DriftIsEvenBetweenTwoComparisons) {
  const ClockOffset first{100, 50, 0}, last{200, 60, 0};
  EXPECT_DOUBLE_EQ(to_root_clock(first, last, 100), 150);
  EXPECT_DOUBLE_EQ(to_root_clock(first, last, 150), 205);
  EXPECT_DOUBLE_EQ(to_root_clock(first, last, 200), 260);
  EXPECT_DOUBLE_EQ(to_root_clock(first, last, 210), 271);
}

TEST(Clock, WhatIsWithinTheErrorsIsNoDrift) {
  const ClockOffset first{100, 50, 0.5}, last{200, 51, 0.75};
  for (const double time : {90.0, 100.0, 170.0, 200.0}) EXPECT_EQ(to_root_clock(first, last, time), time + 50);
  EXPECT_EQ(to_root_clock({100, 50, 0.75}, {200, 51, 0.5}, 170), 221);
  EXPECT_DOUBLE_EQ(to_root_clock({100, 50, 0.25}, {200, 51, 0.5}, 150), 200.5);
  EXPECT_EQ(to_root_clock(first, first, 130), 180);
}

TEST(InTurn, TextsComeInTheOrderOfTheRanks) {
  const Communicator comm(MPI_COMM_WORLD);
  // Rank 2 has an empty text, the last rank a long one.
  const auto text_of = [&](int rank) {
    const std::size_t length = rank == 2 ? 0 : rank == comm.size() - 1 ? 3'000'000 : std::size_t(rank + 1);
    return std::string(length, char('a' + rank));
  };
  std::vector<std::string> taken;
  take_in_turn(comm, text_of(comm.rank()), [&](const std::string& text) { taken.push_back(text); });
  ASSERT_EQ(taken.size(), comm.is_root() ? std::size_t(comm.size()) : 0u);
  for (std::size_t rank = 0; rank < taken.size(); ++rank) EXPECT_EQ(taken[rank], text_of(int(rank))) << rank;
}

}  // namespace
}  // namespace annulus::comm
