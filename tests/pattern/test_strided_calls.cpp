// Work lists of real patterns as strided calls (kernels/cudnn/combs.hpp): one call for all segments of a pair at one
// offset; and for any pattern and cut, the calls and the remaining items together have the triples of the list.
#include <gtest/gtest.h>

#include "annulus/kernels/cudnn/combs.hpp"
#include "annulus/pattern/items.hpp"
#include "support/coverage.hpp"

namespace annulus::pattern {
namespace {

using kernels::cudnn::CutList;

std::vector<CutList> cut(const std::vector<core::WorkList>& lists) {
  std::vector<CutList> all;
  for (const core::WorkList& list : lists) all.push_back(kernels::cudnn::cut_into_calls(list));
  return all;
}

TEST(StridedCalls, OneForEveryOffsetOfAPair) {
  for (const bool causal : {false, true}) {
    for (const Index kv_heads : {8, 2, 1}) {
      Layout layout = test::longnet_layout({{16, 1}, {32, 2}, {64, 4}}, causal, 128, 8);
      layout.kv_heads = kv_heads;
      const StoredRows rows(std::vector<Interval>{{0, 128}});
      const std::vector<CutList> cuts = cut(work_lists(layout, rows, KeyRows::raw(rows)));
      ASSERT_EQ(cuts.size(), 3U);
      const Index offsets[] = {1, 2, 4}, segments[] = {8, 4, 2};
      for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(Index(cuts[i].calls.size()), offsets[i]);
        for (const kernels::cudnn::StridedCall& call : cuts[i].calls) {
          EXPECT_EQ(call.segments, segments[i]);
          EXPECT_EQ(call.groups * call.heads, 8 / offsets[i]);
          EXPECT_EQ(call.query.stride, offsets[i]);
        }
        EXPECT_TRUE(cuts[i].rest.items.empty());
      }
    }
  }
}

TEST(StridedCalls, ZigzagHasFewAndNothingLeft) {
  const Layout layout = test::longnet_layout({{whole_document, 1}}, true, 96, 4);
  const StoredRows mine(std::vector<Interval>{{16, 32}, {64, 80}}), other(std::vector<Interval>{{0, 16}, {80, 96}});
  for (const StoredRows& keys : {mine, other}) {
    const std::vector<CutList> cuts = cut(work_lists(layout, mine, KeyRows::raw(keys)));
    EXPECT_LE(cuts[0].calls.size(), 3U);
    EXPECT_TRUE(cuts[0].rest.items.empty());
    for (const auto& call : cuts[0].calls) EXPECT_EQ(call.groups, 4);
  }
}

TEST(StridedCalls, AreTheListsOfAnyPattern) {
  std::mt19937_64 random(11);
  std::size_t calls = 0, items = 0, left = 0, left_of_windows = 0;
  for (int round = 0; round < 150; ++round) {
    const test::RandomLayout drawn = test::draw_layout(random, 36);
    SCOPED_TRACE(test::describe(drawn));
    const auto& pairs = drawn.layout.pattern.pairs;
    const bool windows = std::any_of(pairs.begin(), pairs.end(), [](const Pair& pair) { return bool(pair.window); });
    const Index a = Index(random() % std::uint64_t(drawn.n + 1)), b = Index(random() % std::uint64_t(drawn.n + 1));
    const StoredRows first(std::vector<Interval>{{0, std::min(a, b)}, {std::max(a, b), drawn.n}});
    const StoredRows second(std::vector<Interval>{{std::min(a, b), std::max(a, b)}});
    for (const StoredRows& queries : {first, second}) {
      for (const StoredRows& key_rows : {first, second}) {
        const KeyRows keys = KeyRows::raw(key_rows);
        const std::vector<core::WorkList> lists = work_lists(drawn.layout, queries, keys);
        test::Triples covered, by_calls;
        test::add_triples(lists, drawn.layout, queries, keys, covered);
        for (const core::WorkList& list : lists) items += list.items.size();
        for (const CutList& one : cut(lists)) {
          calls += one.calls.size();
          (windows ? left_of_windows : left) += one.rest.items.size();
          std::vector<core::WorkList> again{one.rest};
          for (const auto& call : one.calls) again.push_back(kernels::cudnn::list_of(call));
          EXPECT_TRUE(test::add_triples(again, drawn.layout, queries, keys, by_calls))
              << "a head read a wrong K/V head";
        }
        EXPECT_EQ(by_calls, covered);
      }
    }
  }
  EXPECT_LT(calls, items);
  EXPECT_EQ(left, 0U);
  EXPECT_GT(left_of_windows, 0U) << "keys too far before a query cannot be hidden: our own kernels do these";
}

}  // namespace
}  // namespace annulus::pattern
