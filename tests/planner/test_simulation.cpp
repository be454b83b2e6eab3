// The simulation of ranks that wait only for messages: cases worked out by hand, and how delays spread.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "annulus/planner/cost.hpp"
#include "simulation.hpp"

namespace annulus::planner {

using namespace strategies;
namespace {

HopSchedule uniform(int ranks, Coupling coupling, double compute, double transfer) {
  return {ranks, ranks - 1, coupling, 1, [=](int, int) { return compute; }, [=](int, int) { return transfer; }};
}

double slowest(const std::vector<double>& seconds) { return *std::max_element(seconds.begin(), seconds.end()); }

TEST(Simulation, WorkedExample) {
  HopSchedule two = uniform(2, Coupling::neighbours, 0, 2);
  two.compute = [](int rank, int) { return rank == 0 ? 3.0 : 1.0; };
  EXPECT_EQ(simulate(two, 0, 1), (std::vector<double>{6, 3}));
  two.overlap = 0;  // blocks arrive at 3 + 2 s and at 1 + 2 s; both ranks also wait for their sends, until 5 s
  EXPECT_EQ(simulate(two, 0, 1), (std::vector<double>{5 + 3, 5 + 1}));
}

TEST(Simulation, WithoutJitterEveryRankTakesHopsTimesTheLongerOfComputeAndTransfer) {
  for (const Coupling coupling : {Coupling::neighbours, Coupling::rotation, Coupling::one_sided}) {
    for (const double seconds : simulate(uniform(8, coupling, 1, 0.25), 0, 1)) EXPECT_DOUBLE_EQ(seconds, 8);
    for (const double seconds : simulate(uniform(8, coupling, 1, 3), 0, 1)) EXPECT_DOUBLE_EQ(seconds, 7 * 3 + 1);
  }
}

TEST(Simulation, JitterIsAFunctionOfTheSeed) {
  const HopSchedule ring = uniform(16, Coupling::neighbours, 1, 0.5);
  EXPECT_EQ(simulate(ring, 0.3, 7), simulate(ring, 0.3, 7));
  EXPECT_NE(simulate(ring, 0.3, 7), simulate(ring, 0.3, 8));
  const auto alone = simulate(uniform(2000, Coupling::one_sided, 1, 0), 0.5, 3);
  const double mean = std::accumulate(alone.begin(), alone.end(), 0.0) / 2000;
  EXPECT_NEAR(mean, 2000 * 1.5, 0.01 * mean) << "1 + jitter on average";
}

TEST(Simulation, OneSlowHopReachesNeighboursOnePerHopAndOneSidedReadersNotAtAll) {
  const auto slow_start = [](Coupling coupling) {
    HopSchedule schedule = uniform(6, coupling, 1, 0.1);
    schedule.hops = 2;
    schedule.compute = [](int rank, int hop) { return rank == 2 && hop == 0 ? 11.0 : 1.0; };
    return simulate(schedule, 0, 1);
  };
  const auto late = [](const std::vector<double>& done) {
    std::vector<int> ranks;
    for (std::size_t p = 0; p < done.size(); ++p) {
      if (done[p] > 4) ranks.push_back(int(p));
    }
    return ranks;
  };
  EXPECT_EQ(late(slow_start(Coupling::neighbours)), (std::vector<int>{1, 2, 3})) << "they exchange with rank 2";
  EXPECT_EQ(late(slow_start(Coupling::rotation)), (std::vector<int>{0, 2, 4})) << "its peers of hop 1 are two away";
  EXPECT_EQ(late(slow_start(Coupling::one_sided)), (std::vector<int>{2}));
}

TEST(Simulation, JitterCostsCoupledRanksMoreThanFreeOnesAndFarLessThanABarrierPerHop) {
  const int ranks = 256;
  const double ring = slowest(simulate(uniform(ranks, Coupling::neighbours, 1, 0.1), 0.2, 5));
  const double free = slowest(simulate(uniform(ranks, Coupling::one_sided, 1, 0.1), 0.2, 5));
  double harmonic = 0;  // mean of the largest of P exponentials: a barrier waits this long at every hop
  for (int p = 1; p <= ranks; ++p) harmonic += 1.0 / p;
  EXPECT_GT(ring, 1.01 * free);
  EXPECT_LT(ring, 0.7 * ranks * (1 + 0.2 * harmonic));
}

TEST(Simulation, OfAPlanAgreesWithTheCostModelWhereRanksDoNotWait) {
  Problem problem;
  problem.shape = {1, 4096, 4, 4, 16};
  problem.pattern.causal = false;
  problem.documents = {0, 4096};
  problem.partition = pattern::PartitionKind::contiguous;
  core::Machine machine = core::default_machine();
  machine.seconds_per_row = 0;  // the simulation has no such time
  const Strategy& rotation = *find("rotation");
  const auto partition = rotation.partition(problem, 4);
  const auto counts = rank_counts_of(rotation, Pass::forward, problem, partition, count(problem, partition));
  Cost cost = cost_of(*counts, rotation.communication(problem, 4), problem, machine);
  const auto schedule = rotation.forward_schedule(problem, partition);
  for (const Coupling coupling : {Coupling::rotation, Coupling::one_sided, Coupling::neighbours}) {
    const double simulated = slowest(simulate(timed(*schedule, coupling, machine), 0, 1));
    EXPECT_NEAR(simulated, cost.seconds - cost.copy_seconds - cost.overhead_seconds, 1e-9);
  }
}

}  // namespace
}  // namespace annulus::planner
