// The cost model, and decisions of `auto` in cases where the best choice is clear.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "planned_candidates.hpp"
#include "support/planned_problem.hpp"

namespace annulus::planner {

using namespace strategies;
namespace {

using pattern::PartitionKind;

TEST(Cost, IsTheSlowestRanksComputePlusWhatCannotBeHidden) {
  core::Machine machine = core::default_machine();
  machine.kernel = {{256, 0.5}};
  machine.inside_node = {1e-3, 1e-6};
  machine.overlap = 0.25;
  machine.seconds_per_copied_byte = 1e-7;
  const Problem problem = problem_of(64, {{}}, false);
  RankCounts counts;
  counts.kept = {1e6, 2e6};
  counts.sent = counts.copied = {5000, 5000};
  counts.received = {1000, 4000};
  counts.messages = {1, 3};
  counts.calls = {3, 7};
  counts.rows = {100, 200};
  counts.communicators = 2;
  counts.windows = 1;
  counts.window = 1000;
  counts.intervals = {2, 10};
  counts.memory = 77;
  machine.seconds_per_interval = 1e-4;
  machine.seconds_per_call = 1e-5;
  machine.seconds_per_row = 1e-6;
  machine.seconds_per_communicator = 1e-2;
  machine.window = {3e-2, 1e-6};
  const double compute = 2e6 * 4 * 16 * 1e-9 * 0.5 + 200 * 1e-6, copy = 5000 * 1e-7, transfer = 3 * 1e-3 + 4000 * 1e-6;
  const double overhead = 10 * 1e-4 + 7 * 1e-5 + 2 * 1e-2 + 3e-2 + 1000 * 1e-6;
  Cost cost = cost_of(counts, {CommunicationPattern::direct, true}, problem, machine);
  EXPECT_DOUBLE_EQ(cost.compute_seconds, compute);
  EXPECT_DOUBLE_EQ(cost.exposed_seconds, 0.75 * transfer);
  EXPECT_DOUBLE_EQ(cost.overhead_seconds, overhead);
  EXPECT_DOUBLE_EQ(cost.seconds, compute + copy + overhead + 0.75 * transfer);
  EXPECT_DOUBLE_EQ(cost.balance, 2e6 / 1.5e6);
  EXPECT_EQ(cost.received_bytes, 4000);
  EXPECT_EQ(cost.total_bytes, 5000);
  EXPECT_EQ(cost.memory_bytes, 77);
  cost = cost_of(counts, {CommunicationPattern::ring, false}, problem, machine);
  EXPECT_DOUBLE_EQ(cost.exposed_seconds, 2 * transfer) << "send, then receive";
  machine.ranks_per_node = 1;
  machine.between_nodes = {2e-3, 2e-6};
  counts.copied.clear();
  counts.intervals.clear();
  cost = cost_of(counts, {CommunicationPattern::gather, false}, problem, machine);
  EXPECT_DOUBLE_EQ(cost.exposed_seconds, 2 * transfer) << "links between nodes";
  EXPECT_DOUBLE_EQ(cost.copy_seconds, 0) << "a collective packs nothing";
}

TEST(Cost, CapsAndBiasesTakeLonger) {
  Problem plain = problem_of(64, {{}}, false);
  RankCounts counts;
  counts.kept = {1e6};
  counts.sent = counts.received = counts.messages = {0};
  const core::Machine machine = core::default_machine();
  const auto factor = [&](double cap, bool bias, bool places, bool causal) {
    Problem problem = plain;
    problem.rule.cap = cap;
    if (bias) problem.rule.slopes = {1, 0.5, 0.25, 0.125};
    if (places) problem.rule.coordinates = std::make_shared<kernels::Coordinates>(std::vector<double>(128));
    problem.pattern.causal = causal;
    const auto seconds = [&](const Problem& one) {
      return cost_of(counts, {CommunicationPattern::none, true}, one, machine).compute_seconds;
    };
    return seconds(problem) / seconds(plain);
  };
  EXPECT_DOUBLE_EQ(factor(0, false, false, true), 1);
  EXPECT_DOUBLE_EQ(factor(30, false, false, true), 1.10);
  EXPECT_DOUBLE_EQ(factor(0, true, false, true), 1.02);
  EXPECT_DOUBLE_EQ(factor(0, true, false, false), 1.05);
  EXPECT_DOUBLE_EQ(factor(0, true, true, false), 1.07);
  EXPECT_DOUBLE_EQ(factor(30, true, false, true), 1.10 * 1.02);
}

TEST(Cost, RanksThatShareCoresFinishWhatOthersLeave) {
  core::Machine machine = core::default_machine();
  machine.kernel = {{256, 1.0}};
  machine.single_factor = 2 / 3.0;  // 3 ranks on 2 cores
  machine.ranks_per_node = 3;
  const Problem problem = problem_of(64, {{}}, false);
  RankCounts counts;
  counts.kept = {1e6, 2e6, 3e6, 0, 0, 3e6};
  counts.sent = counts.received = counts.messages = std::vector<double>(6);
  const double second = 4e-9 * 16 * 1e6;
  EXPECT_DOUBLE_EQ(cost_of(counts, {CommunicationPattern::direct, true}, problem, machine).compute_seconds, 2 * second);
  machine.ranks_per_node = 1;
  EXPECT_DOUBLE_EQ(cost_of(counts, {CommunicationPattern::direct, true}, problem, machine).compute_seconds, 3 * second);
}

TEST(Cost, HidesNoMoreThanThereIsCompute) {
  core::Machine machine = core::default_machine();
  machine.inside_node = {1, 1e-9};
  machine.overlap = 1;
  const Problem problem = problem_of(64, {{}}, false);
  RankCounts counts;
  counts.kept = {1000};
  counts.sent = counts.received = {0};
  counts.messages = {1};
  const Cost cost = cost_of(counts, {CommunicationPattern::direct, true}, problem, machine);
  EXPECT_DOUBLE_EQ(cost.seconds, 1) << "the message alone takes a second, compute almost nothing";
}

TEST(Auto, TakesOneRankForShortSequencesAndOnOneRank) {
  const core::Machine machine = core::default_machine();
  const Problem problem = problem_of(100000, {{}}, true);
  EXPECT_EQ(choose(problem, 4, 100001, machine).strategy().name(), "single");
  EXPECT_NE(choose(problem, 4, 100000, machine).strategy().name(), "single");
  EXPECT_EQ(choose(problem, 1, 0, machine).strategy().name(), "single");
  EXPECT_NE(choose(problem, 4, 100001, machine).reason.find("local_below"), std::string::npos);
  const Choice of_entries = choose(problem, 4, 25001, machine, /*in_slices=*/true, /*rows_of_entry=*/25000);
  EXPECT_EQ(of_entries.reason, "single: 25000 rows are fewer than distribution.local_below, 25001");
  EXPECT_NE(choose(problem, 4, 25000, machine, true, 25000).strategy().name(), "single");
}

TEST(Auto, TakesZigzagForDenseCausalAndContiguousForDilated) {
  const core::Machine machine = core::default_machine();
  EXPECT_EQ(choose(problem_of(1 << 16, {{}}, true), 8, 0, machine).partition(), PartitionKind::zigzag);
  const Choice dilated = choose(problem_of(1 << 16, {{2048, 1}, {8192, 4}, {32768, 16}, {0, 64}}, true), 8, 0, machine);
  EXPECT_EQ(dilated.partition(), PartitionKind::contiguous);
  const Cost& taken = *dilated.candidates[dilated.taken].cost;
  // Among candidates that are equally fast, the fewest bytes win, then the shortest time.
  for (const Candidate& one : dilated.candidates) {
    if (one.cost->seconds > 1.05 * taken.seconds) continue;
    EXPECT_GE(one.cost->total_bytes, taken.total_bytes) << name_of(one);
    if (one.cost->total_bytes == taken.total_bytes) {
      EXPECT_GE(one.cost->seconds, taken.seconds) << name_of(one);
    }
  }
  Problem named = problem_of(1 << 16, {{}}, true);
  named.partition = PartitionKind::contiguous;
  EXPECT_EQ(choose(named, 8, 0, machine).partition(), PartitionKind::contiguous) << "the user has named it";
}

TEST(Auto, NeverTakesBlockCyclicUnlessItIsNamed) {
  // Contiguous is unbalanced, and block_cyclic is as balanced as zigzag. It is only left out because it must be named.
  core::Machine machine = core::default_machine();
  machine.inside_node = {1e-12, 1e-18};
  for (const Index block : {16, 64, 1024}) {
    Problem problem = problem_of(1 << 14, {{1024, 1}, {0, 4}}, true);
    problem.block_size = block;
    EXPECT_NE(choose(problem, 8, 0, machine).partition(), PartitionKind::block_cyclic) << block;
    EXPECT_EQ(choose(problem, 8, 0, machine).reason.find("block_cyclic"), std::string::npos)
        << "it is not the next, either";
    problem.partition = PartitionKind::block_cyclic;
    EXPECT_EQ(choose(problem, 8, 0, machine).partition(), PartitionKind::block_cyclic) << block;
  }
}

TEST(Auto, OffersOnlyWhatIsReproducibleWhereThatIsAsked) {
  std::vector<Candidate> all;
  for (const bool gradients : {true, false}) {
    Problem problem = problem_of(1 << 16, {{2048, 1}, {0, 16}}, true);
    problem.reproducible = true;
    problem.gradients = gradients;
    all = candidates(problem, 8, core::default_machine());
    std::set<std::string_view> offered;
    for (const Candidate& one : all) {
      offered.insert(one.strategy->name());
      problem.partition = one.partition;
      EXPECT_EQ(why_not_reproducible(*one.strategy, problem, 8), "") << name_of(one);
    }
    const auto can = reproducible_strategies(gradients);
    EXPECT_EQ(offered, (std::set<std::string_view>(can.begin(), can.end())));
  }
  Problem problem = problem_of(1 << 16, {{}}, true);  // dense, causal: zigzag in parts is by far the fastest
  problem.reproducible = true;
  core::Machine machine = core::default_machine();
  machine.memory_per_rank = candidate(candidates(problem, 8, machine), "ring").cost->memory_bytes;  // no gather fits
  EXPECT_EQ(choose(problem, 8, 0, machine).partition(), PartitionKind::zigzag);
  std::map<std::string_view, std::optional<PartitionKind>> kinds;
  for (const Candidate& one : candidates(problem, 8, machine)) kinds[one.strategy->name()] = one.partition;
  EXPECT_EQ(kinds["rotation"], PartitionKind::zigzag);
  EXPECT_EQ(kinds["ring_blocking"], PartitionKind::contiguous);
}

TEST(Auto, KnowsWhatPassesCost) {
  // Two nested combs travel once, unless each pair has a round of its own, as in reproducible problems.
  Problem problem = problem_of(1 << 14, {{0, 4}, {0, 8}}, false);
  const Cost together = *candidate(candidates(problem, 4, core::default_machine()), "rotation").cost;
  problem.reproducible = true;
  const Cost apart = *candidate(candidates(problem, 4, core::default_machine()), "rotation").cost;
  EXPECT_DOUBLE_EQ(apart.total_bytes, 1.5 * together.total_bytes);
  EXPECT_EQ(apart.messages, 2 * together.messages);
  EXPECT_EQ(apart.memory_bytes, together.memory_bytes) << "all rounds use one running softmax";
}

TEST(Auto, GoesByBothPassesWhereGradientsAreAsked) {
  core::Machine machine = core::default_machine();
  machine.between_nodes = machine.inside_node = {1, 1e-12};  // only latency counts: few messages win
  Problem problem = problem_of(1 << 16, {{}}, true);
  const auto forward = candidates(problem, 8, machine);
  problem.gradients = true;
  const auto both = candidates(problem, 8, machine);
  ASSERT_EQ(forward.size(), both.size());
  for (std::size_t i = 0; i < both.size(); ++i) {
    SCOPED_TRACE(name_of(both[i]));
    EXPECT_FALSE(forward[i].backward);
    const Cost &first = *forward[i].cost, &back = *both[i].backward, &all = *both[i].cost;
    if (both[i].partition == PartitionKind::contiguous) {  // its slowest rank is the same in both passes
      EXPECT_NEAR(back.compute_seconds / first.compute_seconds, 2.5, 1e-9);
    }
    EXPECT_EQ(all.memory_bytes, std::max(first.memory_bytes, back.memory_bytes));
    const double apart = all.total_bytes - first.total_bytes - back.total_bytes;
    if (const auto name = both[i].strategy->name(); name == "ulysses" || name == "hybrid") {
      // With gradients, their forward pass also returns normalizers.
      EXPECT_GT(apart, 0);
      EXPECT_LT(apart, double(problem.shape.sequence * problem.normalizer_row_bytes()));
    } else {
      EXPECT_EQ(apart, 0);
      EXPECT_DOUBLE_EQ(all.seconds, first.seconds + back.seconds);
    }
  }
  // There is memory for the forward pass of the choice, but not for its backward pass.
  problem.gradients = false;
  const Choice alone = choose(problem, 8, 0, machine);
  const Candidate& taken = both[alone.taken];
  ASSERT_GT(taken.backward->memory_bytes, forward[alone.taken].cost->memory_bytes);
  machine.memory_per_rank = 1.05 * forward[alone.taken].cost->memory_bytes;
  EXPECT_EQ(choose(problem, 8, 0, machine).taken, alone.taken);
  problem.gradients = true;
  const Choice with = choose(problem, 8, 0, machine);
  const bool at_once = !with.candidates[with.taken].sliced;
  EXPECT_FALSE(at_once && with.taken == alone.taken) << name_of(taken);
}

TEST(Auto, PricesTheSumsThatTravelHome) {
  core::Machine machine = core::default_machine();
  machine.inside_node = {0, 1e-6};  // only bytes count
  machine.overlap = 0;
  machine.seconds_per_copied_byte = 0;
  Problem problem = problem_of(1 << 14, {{}}, false);
  problem.shape = {1, 1 << 14, 16, 4, 64};
  problem.type = core::DType::bfloat16;  // K and V are half as large as the sums of their gradients
  EXPECT_EQ(choose(problem, 4, 0, machine).strategy().name(), "allgather");
  problem.gradients = true;
  EXPECT_EQ(choose(problem, 4, 0, machine).strategy().name(), "ulysses") << "dq travels in 16 bits";
}

TEST(Auto, PassesFewQueriesToManyKeys) {
  Problem problem = problem_of(200000, {{}}, false);
  problem.shape.heads = problem.shape.kv_heads = 8;
  problem.shape.head_dim = 64;
  const core::Machine machine = core::default_machine();
  for (const bool gradients : {false, true}) {
    problem.gradients = gradients;
    for (const int ranks : {2, 3, 8, 64}) EXPECT_NE(choose(problem, ranks, 0, machine).strategy().name(), "pass_q");
  }
  place_queries(problem, std::nullopt, 64);
  for (const bool gradients : {false, true}) {
    problem.gradients = gradients;
    EXPECT_EQ(choose(problem, 2, 0, machine).strategy().name(), "pass_q");
    problem.reproducible = true;
    EXPECT_NE(choose(problem, 2, 0, machine).strategy().name(), "pass_q");
    problem.reproducible = false;
  }
}

TEST(Auto, HasALineForEveryStrategyEvenAtManyRanks) {
  Problem problem = problem_of(1 << 20, {{2048, 1}, {0, 16}}, true);
  for (const int ranks : {2, 100, 4096}) {
    problem.gradients = ranks != 100;
    const auto all = candidates(problem, ranks, core::default_machine());
    for (const Strategy* strategy : available()) {
      const auto found = [&](const Candidate& one) { return one.strategy == strategy; };
      EXPECT_TRUE(std::any_of(all.begin(), all.end(), found)) << strategy->name();
    }
    for (const Candidate& one : all) {
      if (!one.cost) continue;
      EXPECT_GT(one.cost->seconds, 0) << name_of(one);
      EXPECT_GT(one.cost->memory_bytes, 0) << name_of(one);
    }
  }
}

}  // namespace
}  // namespace annulus::planner
