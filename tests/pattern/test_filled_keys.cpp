// Filled-in keys against the reference, which looks for a row in every slot; and where torchscale displaces rows.
#include "annulus/pattern/filled_keys.hpp"

#include <gtest/gtest.h>

#include <map>

#include "support/random_layout.hpp"

namespace annulus::pattern {
namespace {

using Counts = std::map<std::pair<Index, Index>, Index>;  // (row, head) -> filled-in keys

/// Adds the filled-in keys of a rank that stores `rows`; numbers rows and heads as in the whole problem.
void add_counts(const Layout& layout, const StoredRows& rows, Counts& counts) {
  std::vector<Index> global;
  for (const Interval& interval : rows.intervals()) {
    for (Index x = interval.begin; x < interval.end; ++x) global.push_back(x);
  }
  for (const core::FilledRuns& runs : filled_keys(layout, rows)) {
    Counts of_pair;
    for (const core::FilledRun& run : runs) {
      EXPECT_GT(run.keys, 0);
      for (Index i = 0; i < run.count; ++i) {
        for (Index h = 0; h < run.head_count; ++h) {
          const Index head = run.head_first + h * run.head_stride;
          EXPECT_LT(head, layout.query_heads().size());
          const std::pair place{global.at(std::size_t(run.row + i * run.stride)), layout.query_heads().begin + head};
          EXPECT_TRUE(of_pair.emplace(place, run.keys).second) << "twice in a list";
        }
      }
    }
    for (const auto& [place, keys] : of_pair) counts[place] += keys;
  }
}

TEST(FilledKeys, AreThoseOfTheDefinitionForAnyCutAndShare) {
  std::mt19937_64 random(16);
  Index all = 0;
  for (int round = 0; round < 600; ++round) {
    test::RandomLayout drawn = test::draw_layout(random, 60);
    Layout& layout = drawn.layout;
    layout.pattern.semantics = Semantics::torchscale;  // displaced or not: slots are defined for any length
    for (Pair& pair : layout.pattern.pairs) {          // torchscale has no windows
      if (pair.window) pair = {1 + pair.window->left, pair.dilation};
    }
    const int ranks = 1 + int(random() % 4);
    SCOPED_TRACE(test::describe(drawn) + ", ranks " + std::to_string(ranks));
    const kernels::ReferencePattern words = test::reference_pattern(layout);
    Counts expected;
    for (Index x = 0; x < drawn.n; ++x) {
      const Interval document = kernels::document_of(words, drawn.n, x);
      for (Index head = 0; head < layout.heads; ++head) {
        const Index keys = kernels::filled_in(words, layout.heads, head, x, document);
        if (keys > 0) expected[{x, head}] = keys;
        all += keys;
      }
    }
    for (const Partition& partition : {contiguous_partition(drawn.n, ranks), zigzag_partition(layout.documents, ranks),
                                       block_cyclic_partition(drawn.n, ranks, 3)}) {
      const Index shares = 1 + Index(random() % 5);
      Counts found;
      for (Index i = 0; i < shares; ++i) {
        layout.share = core::even_part(layout.heads, shares, i);
        for (const StoredRows& rows : partition) add_counts(layout, rows, found);
      }
      EXPECT_EQ(found, expected) << shares << " shares";
    }
    layout.share = {0, every_head};
  }
  EXPECT_GT(all, 10000) << "too few filled-in keys";
}

TEST(FilledKeys, OnlyOfPairsThatAreWorkedOn) {
  Layout layout = test::longnet_layout({{8, 2}, {4, 1}, {16, 4}}, false, 10, 2);
  layout.pattern.semantics = Semantics::torchscale;
  const StoredRows rows = contiguous_partition(10, 1)[0];
  const std::vector<core::FilledRuns> every = filled_keys(layout, rows);
  ASSERT_EQ(every.size(), 3u);
  EXPECT_EQ(every[0], (core::FilledRuns{{8, 2, 1, 0, 1, 1, 3}, {9, 2, 1, 1, 1, 1, 3}})) << "the worked example";
  EXPECT_EQ(every[1], (core::FilledRuns{{8, 1, 2, 0, 1, 2, 2}}));
  EXPECT_EQ(every[2], (core::FilledRuns{})) << "10 rows, 3 slots: rows 0 4 8 and 1 5 9";
  layout.pairs = {1, 2};
  EXPECT_EQ(filled_keys(layout, rows), (std::vector<core::FilledRuns>{{}, every[1], {}}));
}

TEST(FilledKeys, NoneOfOtherSemanticsAndNoneWhereCausal) {
  Layout layout = test::longnet_layout({{8, 2}, {4, 1}}, false, 10, 2);
  const StoredRows rows = contiguous_partition(10, 1)[0];
  for (const auto& semantics : semantics_table) {
    for (const bool causal : {false, true}) {
      layout.pattern.semantics = semantics.value;
      layout.pattern.causal = causal;
      bool any = false;
      for (const core::FilledRuns& runs : filled_keys(layout, rows)) any = any || !runs.empty();
      EXPECT_EQ(any, semantics.value == Semantics::torchscale && !causal) << semantics.name;
    }
  }
}

TEST(Displacement, IsFoundWhereASegmentOfSeveralIsNoMultiple) {
  Pattern pattern{Semantics::torchscale, {{8, 1}, {9, 3}, {10, 4}}, false, false};
  EXPECT_FALSE(find_displacement(pattern, {0, 10})) << "the third pair has one segment";
  const auto found = find_displacement(pattern, {0, 4, 4, 9, 20, 40});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->pair, 2);
  EXPECT_EQ(found->document, 3);
  EXPECT_EQ(found->rows, (Interval{9, 20}));
  pattern.causal = true;
  EXPECT_TRUE(find_displacement(pattern, {0, 11})) << "whatever the mask";
  pattern.semantics = Semantics::longnet;
  EXPECT_FALSE(find_displacement(pattern, {0, 11}));
  EXPECT_FALSE(find_displacement({Semantics::torchscale, {{whole_document, 7}}, false, false}, {0, 11}));
}

}  // namespace
}  // namespace annulus::pattern
