// Into which blocks strategy stream is cut, what it is predicted to cost, and when `auto` takes it.
#include <gtest/gtest.h>

#include "annulus/planner/stream_cut.hpp"
#include "support/planned_problem.hpp"

namespace annulus::planner {
namespace {

using strategies::problem_of;

core::Machine machine_of(double memory) {
  core::Machine machine = core::default_machine();
  machine.memory_per_rank = memory;
  return machine;
}

constexpr double mib = 1024 * 1024;

/// 16,777,216 rows of one head of 64 in float16, 8 pairs.
Problem long_problem(bool gradients) {
  Problem problem;
  problem.shape = {1, Index(1) << 24, 1, 1, 64};
  problem.type = core::DType::float16;
  problem.scale = 0.125;
  problem.pattern.pairs.clear();
  Index segment = 2048, dilation = 1;
  for (; dilation < 16384; segment *= 4, dilation *= 4) problem.pattern.pairs.push_back({segment, dilation});
  problem.pattern.pairs.push_back({pattern::whole_document, dilation});
  problem.pattern.causal = true;
  problem.documents = {0, problem.shape.sequence};
  problem.gradients = gradients;
  return problem;
}

TEST(StreamCut, FitsAndKeepsUnitsShort) {
  for (const bool gradients : {false, true}) {
    for (const double memory : {2048 * mib, 256 * mib, 64 * mib}) {
      SCOPED_TRACE(fmt::format("{} MiB{}", memory / mib, gradients ? ", gradients" : ""));
      const StreamCut cut = choose_stream_cut(long_problem(gradients), false, 2, machine_of(memory));
      EXPECT_LE(cut.memory_bytes, memory);
      EXPECT_LE(cut.unit_seconds, most_unit_seconds);
      EXPECT_GE(cut.units, 8) << "four for each rank";
      EXPECT_EQ(cut.blocks, core::ceil_div(Index(1) << 24, cut.block_rows));
      EXPECT_GE(cut.memory_bytes, 0.05 * memory) << "no smaller than necessary";
      const double inputs = 3.0 * 128 * double(Index(1) << 24);
      EXPECT_GE(cut.bytes_read, inputs);
      EXPECT_LE(cut.bytes_read, (gradients ? 12 : 4) * inputs);
    }
  }
}

TEST(StreamCut, NeedsLessMemoryForSmallerBlocks) {
  const Problem problem = problem_of(20011, {{512, 1}, {pattern::whole_document, 8}}, false);
  double last = 0;
  for (const Index rows : {100, 1000, 20011}) {
    const StreamCut cut = stream_cut(problem, false, rows, core::default_machine());
    EXPECT_GT(cut.memory_bytes, last);
    last = cut.memory_bytes;
  }
}

TEST(StreamCut, OfNamedBlocksIsTheirs) {
  Problem problem = problem_of(1000, {{}}, true);
  problem.block_size = 300;
  const StreamCut cut = choose_stream_cut(problem, false, 8, machine_of(1));
  EXPECT_EQ(cut.block_rows, 300);
  EXPECT_EQ(cut.blocks, 4);
}

TEST(StreamCut, IsTheSmallestWhereNoneFits) {
  const StreamCut cut = choose_stream_cut(problem_of(5000, {{}}, true), false, 1, machine_of(1));
  EXPECT_GT(cut.memory_bytes, 1);
  EXPECT_LE(cut.block_rows, 32);
}

TEST(StreamCut, OfGranulesIsNoSmallerThanPlacesAreApart) {
  Problem problem = problem_of(5000, {{pattern::whole_document, 100}}, true);
  problem.granule = 16;
  const StreamCut cut = choose_stream_cut(problem, false, 1, machine_of(1));
  EXPECT_EQ(cut.block_rows, 1600);
  EXPECT_EQ(cut.blocks, 4);
}

TEST(StreamOffers, AreTakenWhereNothingElseFits) {
  Problem problem = problem_of(1 << 18, {{2048, 1}, {pattern::whole_document, 64}}, true);
  problem.shape.heads = problem.shape.kv_heads = 1;  // passes over heads would save nothing
  const double room = 16 * mib;
  for (const int ranks : {1, 2}) {
    const core::Machine machine = machine_of(room);
    Choice choice = choose(problem, ranks, std::nullopt, machine);
    const std::size_t others = choice.candidates.size();
    EXPECT_FALSE(offer_stream(StreamOffer::never, problem, false, ranks, machine, choice));
    ASSERT_EQ(choice.candidates.size(), others);
    const auto cut = offer_stream(StreamOffer::if_needed, problem, false, ranks, machine, choice);
    ASSERT_TRUE(cut);
    EXPECT_EQ(choice.strategy().name(), "stream") << ranks;
    EXPECT_NE(choice.reason.find("blocks of"), std::string::npos) << choice.reason;
    EXPECT_LE(choice.candidates[choice.taken].cost->memory_bytes, room);
  }
}

TEST(StreamOffers, AreNotTakenWhereAnyOtherFits) {
  const Problem problem = problem_of(1 << 12, {{2048, 1}}, true);
  const core::Machine machine = machine_of(4096 * mib);
  for (const int ranks : {1, 2}) {
    Choice choice = choose(problem, ranks, std::nullopt, machine);
    const std::string reason = choice.reason;
    EXPECT_FALSE(offer_stream(StreamOffer::if_needed, problem, false, ranks, machine, choice));
    EXPECT_TRUE(offer_stream(StreamOffer::always, problem, false, ranks, machine, choice));
    EXPECT_NE(choice.strategy().name(), "stream");
    EXPECT_EQ(choice.candidates.back().strategy->name(), "stream");
    EXPECT_EQ(choice.reason, reason);
  }
}

TEST(StreamOffers, AreNotMadeForWhatItCannotDo) {
  Problem problem = problem_of(1 << 18, {{}}, true);
  problem.statistics.received = true;
  const core::Machine machine = machine_of(mib);
  Choice choice = choose(problem, 2, std::nullopt, machine);
  EXPECT_FALSE(offer_stream(StreamOffer::always, problem, false, 2, machine, choice));
}

TEST(StreamCut, CountsValuesOfAnotherSize) {
  core::Shape shape{1, 100, 1, 1, 16};
  EXPECT_EQ(strategies::flops_of(shape, 10, 5), 2 * 10 * 5 * 16);
  shape.set_value_dim(8);
  EXPECT_EQ(strategies::flops_of(shape, 10, 2), 2 * 10 * (16 + 8));
  EXPECT_EQ(strategies::flops_of(shape, 10, 5), 2 * 10 * (3 * 16 + 2 * 8)) << "q.k twice, P v, dout.v, dS k";
  EXPECT_EQ(strategies::flops_of(shape, 10, 4), 2 * 10 * (2 * 16 + 2 * 8));
  Problem problem = problem_of(100, {{}}, true);
  problem.gradients = true;
  problem.shape.set_value_dim(8);
  const core::Machine machine = machine_of(2048 * mib);
  const StreamCut cut = stream_cut(problem, false, 100, machine);
  const double kept = 4 * 100 * 101 / 2.0;
  EXPECT_DOUBLE_EQ(cut.compute_seconds,
                   1e-9 * 2 * kept * (5 * 16 + 4 * 8) * machine.seconds_per_gflop(16, problem.type, problem.precision));
}

TEST(StreamCost, IsOfTheSlowerOneOfReadingAndComputing) {
  const Problem problem = problem_of(1 << 16, {{1024, 1}, {pattern::whole_document, 64}}, true);
  core::Machine machine = machine_of(64 * mib);
  const StreamCut cut = choose_stream_cut(problem, false, 2, machine);
  machine.read_rate = 1e15;
  const Cost quick = cost_of_stream(cut, 2, machine);
  EXPECT_EQ(quick.exposed_seconds, 0);
  machine.read_rate = 1e3;
  const Cost slow = cost_of_stream(cut, 2, machine);
  EXPECT_GT(slow.exposed_seconds, quick.seconds);
  EXPECT_EQ(slow.compute_seconds, quick.compute_seconds);
}

TEST(StreamCost, OfSomeBlocksAsSamplesIsAnEstimate) {
  const Problem problem = problem_of(1 << 14, {{1024, 1}}, true);
  const core::Machine machine = machine_of(64 * mib);
  const auto accuracy = [&](Index block_rows) {
    return cost_of_stream(stream_cut(problem, false, block_rows, machine), 2, machine).accuracy;
  };
  EXPECT_EQ(accuracy(1 << 12), pattern::Accuracy::exact) << "4 blocks";
  EXPECT_EQ(accuracy(16), pattern::Accuracy::estimate) << "1024 blocks";
}

}  // namespace
}  // namespace annulus::planner
