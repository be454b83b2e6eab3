// The registry, and predictions that need no MPI.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "annulus/comm/window.hpp"
#include "annulus/strategies/strategy.hpp"
#include "support/planned_problem.hpp"

namespace annulus::strategies {
namespace {

TEST(Registry, NamesAreThoseOfTheRunFileAndUnique) {
  std::set<std::string_view> names;
  for (const auto& strategy : registry()) {
    EXPECT_TRUE(names.insert(strategy->name()).second);
    EXPECT_FALSE(strategy->description().empty());
    EXPECT_EQ(find(strategy->name()), strategy.get());
  }
  // Scripts of users contain these names.
  for (const char* name : {"single", "allgather", "allgather_overlap", "ring_blocking", "ring", "rotation",
                           "ring_bidirectional", "onesided", "ulysses", "hybrid", "pass_q", "stream"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
  EXPECT_EQ(find("auto"), nullptr);
  EXPECT_EQ(find("rings"), nullptr);
}

TEST(Registry, OnlyWindowsDependOnTheMpiLibrary) {
  const std::string defect = comm::window_defect();
  for (const auto& strategy : registry()) {
    EXPECT_EQ(strategy->unavailable(), strategy->name() == "onesided" ? defect : "") << strategy->name();
  }
  EXPECT_EQ(available().size(), registry().size() - 1 - (defect.empty() ? 0 : 1)) << "stream is for one rank";
}

TEST(Prediction, KeptTriplesSumToTheWholeOnEveryStrategy) {
  const Problem problem = problem_of(500, {{64, 1}, {pattern::whole_document, 3}}, true);
  Index whole = 0;
  for (const auto& strategy : registry()) {
    for (const int ranks : {1, 3, 8}) {
      const pattern::Partition partition = strategy->partition(problem, ranks);
      Index kept = 0;
      for (int p = 0; p < ranks; ++p) kept += strategy->predict(problem, partition, p).kept;
      if (whole == 0) whole = kept;
      EXPECT_EQ(kept, whole) << strategy->name() << " at " << ranks;
    }
  }
  EXPECT_GT(whole, 0);
}

TEST(Prediction, RingMemoryFallsWithRanksAndGatherMemoryDoesNot) {
  const Problem problem = problem_of(32768, {{}}, false);  // many rows: the kernel's panels are small
  const auto memory = [&](const char* name, int ranks) {
    return find(name)->predict(problem, find(name)->partition(problem, ranks), 0).memory_bytes;
  };
  const Index kv_of_all_rows = 2 * 32768 * 4 * 16 * 4;
  // The kernel's panels depend on the number of threads, not on the rows.
  const Index panels = kernels::attend_bytes(problem.backend, problem.shape, 1 << 20, problem.precision);
  EXPECT_LT(memory("ring", 64) - panels, kv_of_all_rows / 10) << "a rank holds O(n / P) rows";
  EXPECT_GT(memory("allgather", 64), kv_of_all_rows);
}

TEST(Registry, StrategiesSayWhyTheyAreNotReproducible) {
  Problem problem;
  problem.reproducible = true;
  std::vector<std::string_view> can{"single",   "allgather", "ring_blocking", "ring",
                                    "rotation", "onesided",  "ulysses",       "hybrid"};
  if (!find("onesided")->unavailable().empty()) can.erase(std::find(can.begin(), can.end(), "onesided"));
  EXPECT_EQ(reproducible_strategies(false), can);
  const std::vector<std::string_view> with_gradients{"single",   "allgather", "ring_blocking", "ring",
                                                     "rotation", "ulysses",   "hybrid"};
  EXPECT_EQ(reproducible_strategies(true), with_gradients);
  EXPECT_NE(find("allgather_overlap")->not_reproducible(problem, 4).find("arrive"), std::string::npos);
  EXPECT_NE(find("ring_bidirectional")->not_reproducible(problem, 4).find("both directions"), std::string::npos);
  problem.ulysses_ranks = 2;
  problem.shape = {1, 64, 4, 4, 8};
  problem.documents = {0, 64};
  problem.pattern.causal = false;  // with a causal mask ring and rotation can use zigzag
  for (const pattern::PartitionKind kind : {pattern::PartitionKind::zigzag, pattern::PartitionKind::block_cyclic}) {
    problem.partition = kind;
    for (const char* name : {"ring", "ring_blocking", "rotation", "onesided", "hybrid"}) {
      EXPECT_NE(find(name)->not_reproducible(problem, 4).find("contiguous"), std::string::npos) << name;
    }
    for (const char* name : {"single", "allgather", "ulysses"}) {
      EXPECT_EQ(find(name)->not_reproducible(problem, 4), "") << name;
    }
  }
}

}  // namespace
}  // namespace annulus::strategies
