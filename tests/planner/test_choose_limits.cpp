// What keeps `auto` from a strategy or a partition: memory, room for windows, and rows cut into too many intervals.
#include <gtest/gtest.h>

#include "annulus/pattern/documents_partition.hpp"
#include "annulus/planner/slice_memory.hpp"
#include "planned_candidates.hpp"
#include "support/planned_problem.hpp"

namespace annulus::planner {

using namespace strategies;
namespace {

using pattern::PartitionKind;

std::optional<SlicedCost> cut_of(const Candidate& candidate, const Problem& problem, int ranks,
                                 const core::Machine& machine) {
  SliceCounts known;
  return cut_to_fit(candidate, problem, ranks, machine, known);
}

TEST(Auto, LeavesOutWhatDoesNotFitIntoMemory) {
  core::Machine machine = core::default_machine();
  machine.between_nodes = machine.inside_node = {1, 1e-12};  // only latency counts: few messages win
  const Problem problem = problem_of(1 << 16, {{}}, true);
  const auto all = candidates(problem, 8, machine);
  const double gather = candidate(all, "allgather").cost->memory_bytes;
  const double ring = candidate(all, "ring").cost->memory_bytes;
  ASSERT_LT(ring, gather);
  machine.memory_per_rank = (ring + gather) / 2;
  const Choice choice = choose(problem, 8, 0, machine);
  EXPECT_LE(choice.candidates[choice.taken].cost->memory_bytes, machine.memory_per_rank);
  EXPECT_NE(choice.reason.find("do not fit"), std::string::npos) << choice.reason;
  EXPECT_NE(choose(problem, 8, 1 << 20, machine).strategy().name(), "single") << "too big for one rank";
  machine.memory_per_rank = 1000;
  const std::string reason = choose(problem, 8, 0, machine).reason;
  const std::string none =
      fmt::format(" MiB per rank; none fits; {0} of {0} do not fit into 1000 B per rank", all.size());
  EXPECT_NE(reason.find(none), std::string::npos) << reason;
  EXPECT_THROW(choose_among({}, problem, machine), core::Error);
}

TEST(Auto, TakesPassesWhereNothingFitsAtOnce) {
  core::Machine machine = core::default_machine();
  const Problem problem = problem_of(1 << 16, {{}}, true);
  double least = 0;
  for (const Candidate& one : candidates(problem, 8, machine)) {
    if (one.cost && (least == 0 || one.cost->memory_bytes < least)) least = one.cost->memory_bytes;
  }
  machine.memory_per_rank = least;
  const Choice enough = choose(problem, 8, 0, machine);
  EXPECT_TRUE(enough.fits);
  EXPECT_FALSE(enough.candidates[enough.taken].sliced) << "what fits in one pass is preferred";
  machine.memory_per_rank = 0.8 * least;
  const Choice choice = choose(problem, 8, 0, machine);
  EXPECT_TRUE(choice.fits);
  const Candidate& taken = choice.candidates[choice.taken];
  ASSERT_TRUE(taken.sliced) << choice.reason;
  EXPECT_EQ(taken.sliced->slices, 2);
  EXPECT_LE(taken.sliced->cost.memory_bytes, machine.memory_per_rank);
  EXPECT_GE(taken.sliced->cost.seconds, 0.9 * taken.cost->seconds);
  EXPECT_NE(choice.reason.find(" in 2 passes of "), std::string::npos) << choice.reason;
  machine.memory_per_rank = 0.4 * least;
  const Choice several_sizes = choose(problem, 8, 0, machine);
  int compared = 0;
  for (const Candidate& one : several_sizes.candidates) {  // candidates with the same partition use the same counts
    if (!one.sliced) continue;
    ++compared;
    Problem cut = problem;
    cut.partition = one.partition;
    const Problem slice = narrowed(cut, slice_of(cut.shape, one.sliced->size, 0));
    const auto counted_anew = predict(*one.strategy, slice, one.strategy->partition(cut, 8), machine);
    EXPECT_EQ(one.sliced->cost.memory_bytes, counted_anew->memory_bytes) << name_of(one);
    EXPECT_DOUBLE_EQ(one.sliced->cost.seconds, double(one.sliced->slices) * counted_anew->seconds) << name_of(one);
  }
  EXPECT_GT(compared, 1);
  machine.memory_per_rank = 1000;
  EXPECT_FALSE(choose(problem, 8, 0, machine).fits);
}

TEST(Auto, CountsExactlyWhereNothingFitsByClosedForms) {
  const core::Machine all_of_it = core::default_machine();
  Problem problem = problem_of(1 << 16, {{}}, true);
  problem.gradients = true;
  double exact = 0, bound = 0;  // the least memory of any candidate's smallest slices
  for (const Candidate& one : candidates(problem, 8, all_of_it)) {
    if (!one.cost || one.strategy->name() == "pass_q" || one.partition == PartitionKind::block_cyclic) continue;
    Problem cut = problem;
    cut.partition = one.partition;
    const auto partition = one.strategy->partition(cut, 8);
    const SliceSize size = smallest_slices(*one.strategy, cut, 8);
    const double here = slice_memory(*one.strategy, cut, partition, size, all_of_it).alone;
    const double most =
        predict(*one.strategy, narrowed(cut, slice_of(cut.shape, size, 0)), partition, all_of_it)->memory_bytes;
    exact = exact == 0 ? here : std::min(exact, here);
    bound = bound == 0 ? most : std::min(bound, most);
  }
  ASSERT_LT(exact, bound) << "otherwise this tests nothing";
  core::Machine machine = all_of_it;
  machine.memory_per_rank = exact;
  const Choice choice = choose(problem, 8, 0, machine);
  EXPECT_TRUE(choice.fits) << choice.reason;
  ASSERT_TRUE(choice.candidates[choice.taken].sliced) << choice.reason;
  EXPECT_EQ(choice.candidates[choice.taken].sliced->cost.memory_bytes, exact);
  machine.memory_per_rank = 0.9 * exact;
  const Choice none = choose(problem, 8, 0, machine);
  EXPECT_FALSE(none.fits);
  EXPECT_EQ(none.least_bytes, exact) << none.reason;
}

/// With semantics grouped the first slices may read few rows, and later ones many.
TEST(Auto, PlansForTheLargestSlice) {
  const core::Machine machine = core::default_machine();
  const int ranks = 128;
  for (const Index dense : {0, 1}) {
    Problem problem = problem_of(1 << 14, {{64, 1}, {64, 1}}, true);
    problem.pattern.semantics = pattern::Semantics::grouped;
    problem.pattern.pairs[std::size_t(dense)] = pattern::Pair{};
    problem.partition = PartitionKind::contiguous;
    EXPECT_EQ(largest_slice(problem, {1, 1}).share->query.begin, dense == 0 ? 0 : 2);
    const Strategy& rotation = *find("rotation");
    const auto partition = rotation.partition(problem, ranks);
    const SliceSize size{1, 1};
    double most = 0;
    for (const Index i : {Index(0), problem.shape.kv_heads - 1}) {
      const Problem slice = narrowed(problem, slice_of(problem.shape, size, i));
      const auto schedule = rotation.forward_schedule(slice, partition);
      for (int p = 0; p < ranks; ++p) most = std::max(most, double(schedule->predict(p).memory_bytes));
    }
    EXPECT_GE(slice_memory(rotation, problem, partition, size, machine).alone, most) << dense;
  }
}

TEST(Auto, AWindowIsAsLongAsItsDilationMakesIt) {
  Problem problem = problem_of(1 << 14, {{512, 1}, {512, 8}}, true);  // the heads of the second pair read 64 rows
  problem.pattern.semantics = pattern::Semantics::grouped;
  EXPECT_EQ(largest_slice(problem, {1, 1}).share->query.begin, 0);
  problem.pattern.pairs[1].window = pattern::Window{1000, 0};  // 8,001 rows
  problem.pattern.pairs[1].segment = pattern::whole_document;
  EXPECT_EQ(largest_slice(problem, {1, 1}).share->query.begin, 2);
  problem.pattern.semantics = pattern::Semantics::longnet;
  EXPECT_EQ(largest_slice(problem, {1, 1}).share->query.begin, 0);
}

TEST(Auto, LeavesOutWindowsThatHaveNoRoom) {
  // Copying rows into messages takes nearly all the time; windows need one copy. Gathers do not fit into memory.
  core::Machine machine = core::default_machine();
  machine.seconds_per_copied_byte = 1;
  for (const bool gradients : {false, true}) {
    Problem problem = problem_of(1 << 12, {{}}, false);
    problem.partition = PartitionKind::contiguous;
    problem.gradients = gradients;
    const auto all = candidates(problem, 8, machine);
    const Index own = (Index(1) << 9) * problem.shape.heads;
    const Cost& onesided = *candidate(all, "onesided").cost;
    EXPECT_EQ(onesided.window_bytes, double((gradients ? 2 : 1) * 2 * own * problem.head_row_bytes()));
    EXPECT_EQ(candidate(all, "rotation").cost->window_bytes, 0);
    machine.memory_per_rank = onesided.memory_bytes;
    machine.window_per_rank = onesided.window_bytes;
    if (!gradients) {  // with gradients, sums are added to windows once per reader
      EXPECT_EQ(choose(problem, 8, 0, machine).strategy().name(), "onesided");
    }
    machine.window_per_rank -= 1;
    machine.window_source = "/dev/somewhere (1.0 MiB per rank free)";
    const Choice choice = choose(problem, 8, 0, machine);
    EXPECT_NE(choice.strategy().name(), "onesided");
    EXPECT_NE(choice.reason.find("/dev/somewhere (1.0 MiB per rank free)"), std::string::npos) << choice.reason;
    // Onesided fits into memory, but its window does not fit; the gather fits only in passes, or not at all. The reason
    // must name the room for windows.
    std::vector<Candidate> two{candidate(all, "onesided"), candidate(all, "allgather")};
    two[1].sliced = cut_of(two[1], problem, 8, machine);
    ASSERT_TRUE(two[1].sliced);
    EXPECT_NE(choose_among(two, problem, machine).reason.find("/dev/somewhere"), std::string::npos);
    two[1].sliced.reset();
    EXPECT_NE(choose_among(two, problem, machine).reason.find("/dev/somewhere"), std::string::npos);
    machine.memory_per_rank = 1000;
    EXPECT_NE(choose(problem, 8, 0, machine).strategy().name(), "onesided") << "nothing fits, this least of all";
  }
}

TEST(SliceMemory, IsOnlyKnownIfTheCostIs) {
  const Problem problem = problem_of(1 << 12, {{}}, false);
  const pattern::Partition many = pattern::contiguous_partition(1 << 12, largest_enumerated + 1);
  const core::Machine machine = core::default_machine();
  EXPECT_GT(slice_memory(*find("ring"), problem, many, whole_of(problem.shape), machine).alone, 0);
  EXPECT_THROW(slice_memory(*find("stream"), problem, many, whole_of(problem.shape), machine), core::Error);
}

TEST(Auto, TakesPassesWhoseWindowsFitAndWhoseBitsAreTheSame) {
  core::Machine machine = core::default_machine();
  machine.seconds_per_copied_byte = 1;  // windows need one copy: onesided is the fastest
  Problem problem = problem_of(1 << 12, {{}}, false);
  problem.partition = PartitionKind::contiguous;
  const Candidate onesided = candidate(candidates(problem, 8, machine), "onesided");
  machine.memory_per_rank = 0.6 * onesided.cost->memory_bytes;
  machine.window_per_rank = onesided.cost->window_bytes;
  const auto cut = cut_of(onesided, problem, 8, machine);
  ASSERT_TRUE(cut);
  EXPECT_EQ(cut->slices, 2);
  machine.window_per_rank = 0.9 * cut->cost.window_bytes;
  EXPECT_EQ(cut_of(onesided, problem, 8, machine)->slices, 4) << "windows of two heads do not fit";
  machine.window_per_rank = 0;
  EXPECT_FALSE(cut_of(onesided, problem, 8, machine));

  problem.shape = {1, 1 << 12, 8, 4, 16};
  problem.gradients = problem.reproducible = true;
  const Candidate ulysses = candidate(candidates(problem, 4, machine), "ulysses");
  machine.memory_per_rank = 0.6 * ulysses.cost->memory_bytes;
  EXPECT_FALSE(cut_of(ulysses, problem, 4, machine)) << "ranks would share a head of fewer than four";
  problem.reproducible = false;
  EXPECT_TRUE(cut_of(ulysses, problem, 4, machine));
}

TEST(Auto, CutsNothingIntoPassesThatTheCallerCannotCut) {
  core::Machine machine = core::default_machine();
  const Problem problem = problem_of(1 << 16, {{}}, true);
  machine.memory_per_rank = 0.8 * candidate(candidates(problem, 8, machine), "ring").cost->memory_bytes;
  EXPECT_TRUE(choose(problem, 8, 0, machine).fits);
  const Choice whole = choose(problem, 8, 0, machine, /*in_slices=*/false);
  EXPECT_FALSE(whole.fits);
  EXPECT_NE(whole.reason.find("needs the least memory"), std::string::npos) << whole.reason;
}

TEST(Auto, SaysWhatSetsTheBoundOnMemory) {
  core::Machine machine = core::default_machine();
  machine.memory_per_rank = 1000;
  machine.memory_source = "memory cgroup /job_7, shared by 2 ranks of n1";
  const std::string reason = choose(problem_of(1 << 16, {{}}, true), 8, 0, machine).reason;
  EXPECT_NE(reason.find("(memory cgroup /job_7, shared by 2 ranks of n1)"), std::string::npos) << reason;
}

TEST(Auto, CountsTheIntervalsThatZigzagCutsShortDocumentsIntoAndDealsThemWhole) {
  // A long document in the middle of others: contiguous gives one rank three quarters of its work, zigzag a half.
  const auto packed = [](Index length, Index count, Index longest) {
    Problem problem = problem_of(0, {{}}, true);
    problem.documents = {0};
    for (Index d = 0; d < count; ++d) {
      if (d == count / 2) problem.documents.push_back(problem.documents.back() + longest);
      problem.documents.push_back(problem.documents.back() + length);
    }
    problem.shape.sequence = problem.documents.back();
    return problem;
  };
  const core::Machine machine = core::default_machine();
  for (const auto& [problem, kind] : {std::pair{packed(8, 20000, 4000), PartitionKind::contiguous},
                                      std::pair{packed(4000, 40, 100000), PartitionKind::documents}}) {
    const bool zigzag_gains = kind != PartitionKind::contiguous;
    const Choice choice = choose(problem, 2, 0, machine);
    const auto seconds = [&](PartitionKind kind) { return candidate(choice.candidates, "ring", kind).cost->seconds; };
    EXPECT_EQ(seconds(PartitionKind::zigzag) < seconds(PartitionKind::contiguous), zigzag_gains);
    EXPECT_LE(seconds(PartitionKind::documents), 1.01 * seconds(PartitionKind::zigzag));
    EXPECT_LT(candidate(choice.candidates, "ring", PartitionKind::documents).cost->total_bytes,
              candidate(choice.candidates, "ring", PartitionKind::zigzag).cost->total_bytes);
    EXPECT_EQ(choice.partition(), kind) << choice.reason;
    EXPECT_EQ(kind_of(problem, find("ring")->partition(problem, 2)), PartitionKind::documents) << "by work alone";
  }
}

TEST(Auto, ComparesPartitionsThatDifferAndCanBePlanned) {
  Problem problem = problem_of(1 << 16, {{}}, true);
  EXPECT_FALSE(is_compared(problem, PartitionKind::documents, 8)) << "one document: it is zigzag";
  EXPECT_TRUE(is_compared(problem, PartitionKind::zigzag, 65536));
  problem.documents = {0};
  for (Index d = 0; d < 1000; ++d) problem.documents.push_back(problem.documents.back() + 64);
  problem.shape.sequence = problem.documents.back();
  EXPECT_TRUE(is_compared(problem, PartitionKind::documents, 65536));
  EXPECT_TRUE(is_compared(problem, PartitionKind::zigzag, 1024));
  EXPECT_FALSE(is_compared(problem, PartitionKind::zigzag, 65536)) << "131 million intervals";
  for (const Candidate& one : candidates(problem, 16384, core::default_machine())) {
    EXPECT_NE(one.partition, PartitionKind::zigzag) << name_of(one);
  }
  // kind_of() makes no such zigzag for comparison, either: at the end of a run it would take tens of gigabytes.
  problem.documents = {0};
  for (Index d = 0; d < 100000; ++d) problem.documents.push_back(problem.documents.back() + 64 * (1 + d % 3));
  problem.shape.sequence = problem.documents.back();
  const pattern::Partition whole = pattern::documents_partition(problem.layout(), 4096);
  EXPECT_EQ(kind_of(problem, whole), PartitionKind::documents) << "a zigzag has 819 million intervals";
}

}  // namespace
}  // namespace annulus::planner
