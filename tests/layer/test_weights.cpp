// Which rank keeps and writes which part of a weight, for any number of ranks in one process.
#include "annulus/layer/weights.hpp"

#include <gtest/gtest.h>

#include <map>

#include "annulus/core/error.hpp"

namespace annulus::layer {
namespace {

LayerProblem problem_of(Index width, Index heads, Index kv_heads, Index head_dim, Sharding sharding) {
  LayerProblem problem;
  problem.width = width;
  problem.attention.shape = {1, 16, heads, kv_heads, head_dim};
  problem.biases = {true, false, true, true};
  problem.sharding = sharding;
  return problem;
}

/// How many ranks have each number of a weight, by row and column.
using Claims = std::map<std::pair<Index, Index>, int>;

Claims claims(const LayerProblem& problem, Weight weight, int ranks,
              Rectangle (*part)(const LayerProblem&, Weight, int, int)) {
  Claims count;
  for (int rank = 0; rank < ranks; ++rank) {
    const Rectangle box = part(problem, weight, rank, ranks);
    for (Index row = box.rows.begin; row < box.rows.end; ++row) {
      for (Index column = box.columns.begin; column < box.columns.end; ++column) ++count[{row, column}];
    }
  }
  return count;
}

/// How many ranks keep a number, by the description of the sharding.
int keepers(const LayerProblem& problem, Weight weight, Index row, Index column, int ranks) {
  if (problem.sharding == Sharding::fsdp) return 1;
  if (problem.sharding == Sharding::none || weight == Weight::bo) return ranks;
  if (!is_of_keys(weight)) return 1;
  const core::Shape& s = problem.attention.shape;
  const Index head = (is_bias(weight) ? row : column) / s.head_dim, group = s.heads / s.kv_heads;
  int count = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const core::Interval queries = core::even_part(s.heads, ranks, rank);
    count += !core::intersect(queries, {head * group, (head + 1) * group}).empty();
  }
  return count;
}

TEST(Weights, AreWrittenOnceAndKeptByTheRightNumberOfRanks) {
  for (const ShardingEntry& entry : sharding_table) {
    for (const auto& [heads, kv_heads] : {std::pair{6, 6}, std::pair{6, 2}, std::pair{5, 1}}) {
      for (const int ranks : {1, 2, 3, 4, 7}) {
        const LayerProblem problem = problem_of(10, heads, kv_heads, 3, entry.value);
        for (const Weight weight : all_weights) {
          SCOPED_TRACE(testing::Message() << name_of(weight) << ", " << entry.name << ", " << heads << "/" << kv_heads
                                          << " heads on " << ranks);
          Claims once, by_description;
          const Rectangle box = whole(problem, weight);
          for (Index row = 0; row < box.rows.end; ++row) {
            for (Index column = 0; column < box.columns.end; ++column) {
              once[{row, column}] = 1;
              by_description[{row, column}] = keepers(problem, weight, row, column, ranks);
            }
          }
          EXPECT_EQ(claims(problem, weight, ranks, written), once);
          EXPECT_EQ(claims(problem, weight, ranks, kept), by_description);
        }
      }
    }
  }
}

TEST(Weights, WrittenIsPartOfKept) {
  for (const ShardingEntry& entry : sharding_table) {
    const LayerProblem problem = problem_of(10, 6, 2, 3, entry.value);
    for (const Weight weight : all_weights) {
      for (int rank = 0; rank < 4; ++rank) {
        const Rectangle inner = written(problem, weight, rank, 4), outer = kept(problem, weight, rank, 4);
        EXPECT_EQ(core::intersect(inner.rows, outer.rows).size(), inner.rows.size());
        EXPECT_EQ(core::intersect(inner.columns, outer.columns).size(), inner.columns.size());
      }
    }
  }
}

TEST(Weights, WorkedExample) {
  // 6 query heads of 3 on 4 ranks: 0 1 | 2 3 | 4 | 5; with 2 key/value heads they read 0 | 0 1 | 1 | 1.
  const LayerProblem problem = problem_of(10, 6, 2, 3, Sharding::tensor);
  EXPECT_EQ(kept(problem, Weight::wq, 1, 4), (Rectangle{{0, 10}, {6, 12}}));
  EXPECT_EQ(kept(problem, Weight::wo, 1, 4), (Rectangle{{6, 12}, {0, 10}}));
  EXPECT_EQ(kept(problem, Weight::bq, 2, 4), (Rectangle{{12, 15}, {0, 1}}));
  EXPECT_EQ(kept(problem, Weight::wk, 1, 4), (Rectangle{{0, 10}, {0, 6}}));
  EXPECT_EQ(written(problem, Weight::wk, 1, 4), (Rectangle{{0, 10}, {3, 6}}));
  EXPECT_EQ(kept(problem, Weight::bv, 3, 4), (Rectangle{{3, 6}, {0, 1}}));
  EXPECT_EQ(written(problem, Weight::bv, 3, 4).count(), 0);
  EXPECT_EQ(whole(problem, Weight::bk).count(), 0) << "the layer has no such bias";
  EXPECT_EQ(kept(problem_of(10, 6, 2, 3, Sharding::fsdp), Weight::wk, 1, 4), (Rectangle{{3, 6}, {0, 6}}));
}

TEST(Weights, NamesAreThoseOfTheDatasets) {
  std::string names;
  for (const Weight weight : all_weights) names += std::string(name_of(weight)) + " ";
  EXPECT_EQ(names, "wq wk wv wo bq bk bv bo ");
  EXPECT_EQ(bias_of(Weight::wv), Weight::bv);
  EXPECT_EQ(name_of(Sharding::fsdp), "fsdp");
}

std::string complaint(const LayerProblem& problem) {
  try {
    check(problem);
  } catch (const core::Error& error) {
    EXPECT_EQ(error.kind(), core::ErrorKind::usage);
    return error.what();
  }
  return "";
}

TEST(Weights, NonsenseIsRefused) {
  LayerProblem problem = problem_of(10, 6, 2, 3, Sharding::none);
  EXPECT_EQ(complaint(problem), "");
  problem.rope = 10000;
  EXPECT_NE(complaint(problem).find("layer.rope: turns pairs of numbers, but the head size is odd, 3"),
            std::string::npos);
  problem.attention.shape.head_dim = 4;
  EXPECT_EQ(complaint(problem), "");
  problem.rope = 1;
  EXPECT_NE(complaint(problem).find("layer.rope: base 1 is not above 1"), std::string::npos);
  problem.rope.reset();
  problem.attention.reproducible = true;
  EXPECT_NE(complaint(problem).find("compute.reproducible: a layer cannot"), std::string::npos);
  problem.attention.reproducible = false;
  problem.attention.shape.kv_heads = 4;
  EXPECT_NE(complaint(problem).find("layer.kv_heads: 4 does not divide layer.heads, 6"), std::string::npos);
  problem.attention.shape.kv_heads = 0;
  EXPECT_NE(complaint(problem).find("layer.kv_heads is 0, expected 1 or more"), std::string::npos);
  problem = problem_of(0, 6, 2, 3, Sharding::none);
  EXPECT_NE(complaint(problem).find("layer.x has rows of 0 numbers, expected 1 or more"), std::string::npos);
}

}  // namespace
}  // namespace annulus::layer
