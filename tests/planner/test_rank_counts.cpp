// The counts of every rank against what each rank's schedule predicts.
#include <gtest/gtest.h>

#include "annulus/planner/cost.hpp"
#include "support/planned_problem.hpp"

namespace annulus::planner {

using namespace strategies;
namespace {

using pattern::PartitionKind;

/// Work (`factor` times the kept triples) and bytes of every rank are as predicted; counted memory is an upper bound.
template <class Predict>
void expect_loads(const RankCounts& counts, double factor, int ranks, Predict&& predict) {
  double memory = 0;
  for (int p = 0; p < ranks; ++p) {
    const Prediction expected = predict(p);
    EXPECT_EQ(counts.kept[std::size_t(p)], factor * double(expected.kept));
    EXPECT_EQ(counts.received[std::size_t(p)], double(expected.bytes_received));
    EXPECT_EQ(counts.sent[std::size_t(p)], double(expected.bytes_sent));
    memory = std::max(memory, double(expected.memory_bytes));
  }
  EXPECT_GE(counts.memory, memory);
  EXPECT_LE(counts.memory, 1.8 * memory);  // both directions of a ring are counted; a causal window uses one of them
}

/// Calls check(strategy, problem, partition, counted) for every partition of every strategy whose counts have an exact
/// closed form here; returns how many ranks were checked.
template <class Check>
int for_exact_counts(Problem problem, int ranks, const std::string& what, Check&& check) {
  int checked = 0;
  for (const auto& strategy : registry()) {
    if (strategy->communication(problem, ranks).pattern >= CommunicationPattern::heads) continue;  // no exact form
    for (const auto& entry : pattern::partition_table) {
      SCOPED_TRACE(fmt::format("{} {} on {}: {}{}", strategy->name(), entry.name, ranks, what,
                               problem.reproducible ? ", reproducible" : ""));
      problem.partition = entry.value;
      // The forward pass costs the same in any order, so it is checked even if it cannot be reproducible.
      if (problem.gradients && !why_not_reproducible(*strategy, problem, ranks).empty()) continue;
      const pattern::Partition partition = strategy->partition(problem, ranks);
      const Counted counted = count(problem, partition);
      if (counted.traffic.accuracy != pattern::Accuracy::exact) continue;
      check(*strategy, problem, partition, counted);
      checked += ranks;
    }
  }
  return checked;
}

TEST(RankCounts, EqualThePredictionsOfAllRanks) {
  std::mt19937_64 random(31);
  int compared = 0;
  for (int round = 0; round < 40; ++round) {
    const test::RandomLayout drawn = test::draw_layout(random, 500);
    Problem problem = problem_of(drawn);
    problem.reproducible = round % 2 == 1;
    const int ranks = 1 + int(random() % (round < 5 ? 64 : 8));
    const auto check = [&](const Strategy& strategy, const Problem& cut, const pattern::Partition& partition,
                           const Counted& counted) {
      const auto counts = rank_counts_of(strategy, Pass::forward, cut, partition, counted);
      ASSERT_TRUE(counts);
      expect_loads(*counts, 1, ranks, [&](int p) { return strategy.predict(cut, partition, p); });
    };
    compared += for_exact_counts(problem, ranks, test::describe(drawn), check);
  }
  EXPECT_GT(compared, 1000);
}

TEST(RankCounts, OfTheBackwardPassEqualThePredictionsOfAllRanks) {
  std::mt19937_64 random(33);
  int compared = 0;
  for (int round = 0; round < 40; ++round) {
    const test::RandomLayout drawn = test::draw_layout(random, 500);
    Problem problem = problem_of(drawn);
    problem.type = round % 2 == 0 ? core::DType::float32 : core::DType::bfloat16;  // sums are float32
    problem.gradients = true;
    problem.reproducible = round % 4 >= 2;
    const int ranks = 1 + int(random() % (round < 3 ? 64 : 8));
    const auto check = [&](const Strategy& strategy, const Problem& cut, const pattern::Partition& partition,
                           const Counted& counted) {
      const auto counts = rank_counts_of(strategy, Pass::backward, cut, partition, counted);
      ASSERT_TRUE(counts);
      expect_loads(*counts, 2.5, ranks, [&](int p) { return strategy.predict_backward(cut, partition, p); });
    };
    compared += for_exact_counts(problem, ranks, test::describe(drawn), check);
  }
  EXPECT_GT(compared, 1000);
}

/// In dense attention every message is as large as the largest one, so the memory of the fullest rank is exact.
TEST(RankCounts, MemoryOfDenseAttentionIsThatOfTheFullestRank) {
  for (const core::DType type : {core::DType::float32, core::DType::bfloat16}) {
    for (const int ranks : {1, 2, 3, 4, 8}) {
      Problem problem = problem_of(240, {{}}, false);
      problem.type = type;
      problem.partition = PartitionKind::contiguous;
      for (const std::string_view name :
           {"single", "allgather", "allgather_overlap", "ring", "ring_blocking", "rotation", "onesided", "ulysses"}) {
        SCOPED_TRACE(fmt::format("{} on {}", name, ranks));
        const Strategy& strategy = *find(name);
        const pattern::Partition partition = strategy.partition(problem, ranks);
        const auto counts = rank_counts_of(strategy, Pass::forward, problem, partition, count(problem, partition));
        EXPECT_EQ(counts->memory, double(strategy.predict(problem, partition, 0).memory_bytes));
      }
    }
  }
}

/// A strategy whose queries travel is counted rank by rank for some dozens of ranks; for more, work is an estimate.
TEST(RankCounts, OfQueriesThatTravelEqualThePredictionsOfAllRanks) {
  std::mt19937_64 random(35);
  const Strategy& strategy = *find("pass_q");
  for (int round = 0; round < 40; ++round) {
    const test::RandomLayout drawn = test::draw_layout(random, 500);
    Problem problem = problem_of(drawn);
    problem.gradients = true;
    const Index count = 1 + Index(random() % std::uint64_t(drawn.n));
    if (round % 3 > 0) place_queries(problem, Index(random() % std::uint64_t(drawn.n - count + 1)), count);
    const int ranks = 1 + int(random() % 8);
    SCOPED_TRACE(fmt::format("{} queries on {}: {}", problem.query_count(), ranks, test::describe(drawn)));
    const pattern::Partition partition = strategy.partition(problem, ranks);
    const Counted counted = planner::count(problem, partition);
    const auto forward = rank_counts_of(strategy, Pass::forward, problem, partition, counted);
    const auto backward = rank_counts_of(strategy, Pass::backward, problem, partition, counted);
    ASSERT_TRUE(forward && backward);
    expect_loads(*forward, 1, ranks, [&](int p) { return strategy.predict(problem, partition, p); });
    expect_loads(*backward, 2.5, ranks, [&](int p) { return strategy.predict_backward(problem, partition, p); });
    EXPECT_EQ(forward->messages, std::vector<double>(std::size_t(ranks), 4 * (ranks - 1))) << "q, m, l and acc";
  }
  Problem dense = problem_of(4096, {{}}, false);
  place_queries(dense, std::nullopt, 64);
  const pattern::Partition partition = strategy.partition(dense, 100);
  const auto counts = rank_counts_of(strategy, Pass::forward, dense, partition, count(dense, partition));
  for (int p = 0; p < 100; ++p)
    EXPECT_NEAR(counts->kept[std::size_t(p)], double(strategy.predict(dense, partition, p).kept), 1e-6);
}

/// Counts are exact except for rings across groups of ranks: there all K/V heads are assumed to move equally many rows.
/// With semantics grouped they do not, if a group of heads has a window of its own.
TEST(RankCounts, OfHeadExchangesAreNearThePredictionsOfTheBusiestRank) {
  std::mt19937_64 random(32);
  int compared = 0;
  for (int round = 0; round < 60; ++round) {
    const test::RandomLayout drawn = test::draw_layout(random, 500);
    Problem problem = problem_of(drawn);
    problem.ulysses_ranks = 2;
    const int ranks = 2 * (1 + int(random() % 4));
    for (const auto& strategy : registry()) {
      const CommunicationPattern moved = strategy->communication(problem, ranks).pattern;
      if (moved != CommunicationPattern::heads && moved != CommunicationPattern::heads_in_ring) continue;
      SCOPED_TRACE(fmt::format("{} on {}: {}", strategy->name(), ranks, test::describe(drawn)));
      const pattern::Partition partition = strategy->partition(problem, ranks);
      const auto counts = rank_counts_of(*strategy, Pass::forward, problem, partition, count(problem, partition));
      ASSERT_TRUE(counts);
      const Cost cost = cost_of(*counts, strategy->communication(problem, ranks), problem, core::default_machine());
      double received = 0, memory = 0;
      for (int p = 0; p < ranks; ++p) {
        const Prediction expected = strategy->predict(problem, partition, p);
        received = std::max(received, double(expected.bytes_received));
        memory = std::max(memory, double(expected.memory_bytes));
      }
      EXPECT_GE(cost.received_bytes, 0.8 * received);
      EXPECT_LE(cost.received_bytes, 1.5 * received);
      EXPECT_GE(counts->memory, 0.95 * memory);
      EXPECT_LE(counts->memory, 1.2 * memory);
      problem.gradients = true;
      const auto back = rank_counts_of(*strategy, Pass::backward, problem, partition, count(problem, partition));
      problem.gradients = false;
      double sent = 0;
      received = memory = 0;
      for (int p = 0; p < ranks; ++p) {
        const Prediction expected = strategy->predict_backward(problem, partition, p);
        received = std::max(received, double(expected.bytes_received));
        sent = std::max(sent, double(expected.bytes_sent));
        memory = std::max(memory, double(expected.memory_bytes));
      }
      const Cost backward = cost_of(*back, strategy->communication(problem, ranks), problem, core::default_machine());
      EXPECT_GE(backward.received_bytes, 0.85 * received);
      EXPECT_LE(backward.received_bytes, 1.5 * received);
      EXPECT_GE(backward.sent_bytes, 0.8 * sent);
      EXPECT_LE(backward.sent_bytes, 1.5 * sent);
      EXPECT_GE(back->memory, 0.95 * memory);
      EXPECT_LE(back->memory, 1.4 * memory);
      ++compared;
    }
  }
  EXPECT_GT(compared, 100);
}

}  // namespace
}  // namespace annulus::planner
