// Queries that are an interval of the sequence, or have no row numbers: every strategy and partition, forward, backward
// and statistics, against the float64 definition. Each rank checks its rows of queries and of keys. With several ranks,
// which share few cores, only a part of these checks runs, drawn with a seed.
#include <algorithm>
#include <set>

#include "query_case.hpp"

namespace annulus::strategies {
namespace {

int share_of_checks() {
  const int ranks = comm::Communicator(MPI_COMM_WORLD).size();
  return ranks > 2 ? 6 : ranks > 1 ? 3 : 1;
}

void check_all(const std::vector<QueryCase>& cases, bool reproducible) {
  for (QueryCase one : cases) {
    one.problem.reproducible = reproducible;
    const QueryTruth truth(one);
    for_every_strategy({{one.name, one.problem, one.seed}}, share_of_checks(),
                       [&](const Strategy& strategy, const Case& cut, const comm::Communicator& comm) {
                         if (!why_not_reproducible(strategy, cut.problem, comm.size()).empty()) return;
                         QueryRun(strategy, cut, truth, comm).check();
                       });
  }
}

/// All queries exist, but only a range of the keys does.
std::vector<QueryCase> ranged_queries() {
  const pattern::Pattern dense{pattern::Semantics::longnet, {{}}, false, false};
  std::vector<QueryCase> cases;
  for (const auto& [keys, count, range] : std::vector<std::tuple<Index, Index, core::Interval>>{{40, 7, {5, 33}},
                                                                                                {40, 40, {0, 40}},
                                                                                                {40, 40, {11, 12}},
                                                                                                {23, 61, {3, 23}},
                                                                                                {23, 61, {0, 9}},
                                                                                                {24, 24, {7, 7}},
                                                                                                {24, 30, {24, 24}},
                                                                                                {3, 5, {2, 3}}}) {
    Problem problem = make_case("keys", {2, keys, 4, 2, 12}, dense, {}, core::DType::float32).problem;
    problem.key_ranges = {range};
    QueryCase one{fmt::format("keys [{}, {}) of {}, {} queries", range.begin, range.end, keys, count), problem, 1};
    one.problem.gradients = true;
    one.problem.statistics = {true, true, 3};
    one.problem.sink = cases.size() % 2 == 1;
    place_queries(one.problem, std::nullopt, count);
    cases.push_back(one);
  }
  return cases;
}

/// 60 random cases; each number of ranks draws other cases.
std::vector<QueryCase> random_queries() {
  const std::uint64_t own_seed = seed + 100 * std::uint64_t(comm::Communicator(MPI_COMM_WORLD).size());
  std::mt19937_64 random(own_seed);
  std::vector<QueryCase> cases;
  for (int i = 0; i < 60; ++i) {
    const test::RandomLayout drawn = test::draw_layout(random, 70);
    const Index count = 1 + Index(random() % std::uint64_t(drawn.n)), head_dim = 1 + Index(random() % 40);
    const Index offset = Index(random() % std::uint64_t(drawn.n - count + 1));
    QueryCase one =
        make_queries("seed " + std::to_string(own_seed) + " case " + std::to_string(i) + ": " + test::describe(drawn),
                     {1 + Index(random() % 2), drawn.n, drawn.layout.heads, drawn.layout.kv_heads, head_dim},
                     drawn.layout.pattern, offset, count, drawn.layout.documents);
    one.problem.sink = i % 3 == 0;
    one.seed = random();
    cases.push_back(one);
  }
  return cases;
}

/// Every third of all these cases, with values of another head size than keys.
std::vector<QueryCase> value_queries() {
  std::vector<QueryCase> some;
  for (const auto& cases : {awkward_queries(), pattern_queries(), stored_queries(), random_queries()}) {
    for (std::size_t i = 0; i < cases.size(); i += 3) {
      if (!kernels::why_no_value_dim(cases[i].problem.backend).empty()) continue;
      some.push_back(cases[i]);
      core::Shape& shape = some.back().problem.shape;
      shape.set_value_dim(i % 2 == 0 ? shape.head_dim / 2 + 1 : shape.head_dim + 3);
    }
  }
  return some;
}

TEST(Queries, Awkward) { check_all(awkward_queries(), false); }

TEST(Queries, KeysThatDoNotExist) { check_all(ranged_queries(), false); }

TEST(Queries, Patterns) { check_all(pattern_queries(), false); }

TEST(Queries, EveryStorageType) { check_all(stored_queries(), false); }

TEST(Queries, RandomSettings) { check_all(random_queries(), false); }

TEST(Queries, ValuesOfAnotherSize) { check_all(value_queries(), false); }

TEST(QueriesInOrder, Awkward) { check_all(awkward_queries(), true); }

TEST(QueriesInOrder, KeysThatDoNotExist) { check_all(ranged_queries(), true); }

TEST(QueriesInOrder, Patterns) { check_all(pattern_queries(), true); }

TEST(QueriesInOrder, RandomSettings) { check_all(random_queries(), true); }

TEST(QueriesInOrder, ValuesOfAnotherSize) { check_all(value_queries(), true); }

/// A reproducible problem whose queries are an interval of the sequence, or whose keys are a range, has the bits that
/// one rank computes alone.
TEST(QueriesInOrder, BitsAreThoseOfOneRank) {
  const comm::Communicator comm(MPI_COMM_WORLD), self(MPI_COMM_SELF);
  int compared = 0;
  std::vector<QueryCase> cases = pattern_queries();
  for (const QueryCase& one : ranged_queries()) cases.push_back(one);
  for (QueryCase one : cases) {
    one.problem.reproducible = true;
    const QueryTruth truth(one);
    const Case alone_case{one.name, one.problem, one.seed};
    QueryRun alone(*find("single"), alone_case, truth, self);
    alone.run();
    for_every_strategy({alone_case}, share_of_checks(),
                       [&](const Strategy& strategy, const Case& cut, const comm::Communicator& ranks) {
                         if (!why_not_reproducible(strategy, cut.problem, ranks.size()).empty()) return;
                         QueryRun run(strategy, cut, truth, ranks);
                         run.run();
                         run.expect_bits_of(alone);
                         ++compared;
                       });
  }
  EXPECT_GT(compared, 10);
}

TEST(Queries, PlacesOfRows) {
  Problem problem;
  problem.shape.sequence = 12;
  problem.documents = {0, 12};
  place_queries(problem, 6, 2);
  EXPECT_EQ(problem.queries, (core::Interval{6, 8}));
  EXPECT_EQ(problem.query_count(), 2);
  const pattern::Partition even = pattern::contiguous_partition(12, 2);
  EXPECT_EQ(query_rows(problem, even)[0].count(), 0);
  EXPECT_EQ(query_rows(problem, even)[1].intervals(), (std::vector<core::Interval>{{6, 8}}));
  problem.partition = pattern::PartitionKind::zigzag;
  const pattern::Partition balanced = distributed_partition(problem, 2);
  for (const pattern::StoredRows& rows : query_rows(problem, balanced)) EXPECT_EQ(rows.count(), 1);
  for (const pattern::StoredRows& rows : balanced) EXPECT_EQ(rows.count(), 6);
}

TEST(Queries, WithoutRowNumbersStandAfterAllKeysOnlyWhereTheyAreMore) {
  Problem problem;
  problem.shape.sequence = 4;
  problem.documents = {0, 4};
  problem.pattern.causal = false;
  Problem fewer = problem;
  place_queries(fewer, std::nullopt, 3);
  EXPECT_EQ(fewer.queries, (core::Interval{0, 3}));
  Problem as_many = problem;
  place_queries(as_many, std::nullopt, 4);
  EXPECT_FALSE(as_many.queries);
  place_queries(problem, std::nullopt, 6);
  EXPECT_EQ(problem.queries, (core::Interval{4, 10}));
  EXPECT_EQ(problem.documents, (pattern::Documents{0, 10}));
  const pattern::Partition rows = query_rows(problem, pattern::contiguous_partition(4, 3));  // 2, 1 and 1 keys
  EXPECT_EQ(rows[0].intervals(), (std::vector<core::Interval>{{4, 7}}));
  EXPECT_EQ(rows[1].intervals(), (std::vector<core::Interval>{{7, 8}}));
  EXPECT_EQ(rows[2].intervals(), (std::vector<core::Interval>{{8, 10}}));
}

/// `auto` spreads queries at neighbouring rows over the ranks; contiguous would give all of them to one rank.
TEST(Queries, AutoBalancesTheirWork) {
  QueryCase one =
      make_queries("latents", {1, 4096, 4, 4, 16}, {pattern::Semantics::longnet, {{}}, false, false}, 4032, 64);
  const pattern::Partition partition = distributed_partition(one.problem, 4);
  for (const pattern::StoredRows& rows : query_rows(one.problem, partition)) EXPECT_EQ(rows.count(), 16);
  one.problem.partition = pattern::PartitionKind::contiguous;
  EXPECT_EQ(query_rows(one.problem, distributed_partition(one.problem, 4))[3].count(), 64);
}

}  // namespace
}  // namespace annulus::strategies
