// Work lists against the definition: wherever rows are cut, lists have each kept (query, key, head) triple exactly as
// often as it counts.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "annulus/pattern/counts.hpp"
#include "annulus/pattern/items.hpp"
#include "support/coverage.hpp"

namespace annulus::pattern {
namespace {

/// Rows 0 ... n-1 dealt to `ranks` ranks in blocks of random length, so that ranks hold several intervals each.
Partition shuffled_blocks(std::mt19937_64& random, Index n, int ranks) {
  std::vector<std::vector<Interval>> rows(static_cast<std::size_t>(ranks));
  for (Index begin = 0; begin < n;) {
    const Index end = std::min(n, begin + std::uniform_int_distribution<Index>(1, 7)(random));
    rows[random() % std::size_t(ranks)].push_back({begin, end});
    begin = end;
  }
  Partition partition;
  for (auto& intervals : rows) partition.emplace_back(intervals);
  return partition;
}

TEST(WorkLists, OfAllRanksCoverTheDefinitionExactlyOnce) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 200; ++round) {
    const test::RandomLayout drawn = test::draw_layout(random, 36);
    SCOPED_TRACE(test::describe(drawn));
    const int ranks = 1 + int(random() % 5);
    for (const Partition& partition : {contiguous_partition(drawn.n, ranks), shuffled_blocks(random, drawn.n, ranks)}) {
      test::Triples covered;
      Index kept = 0;
      for (const StoredRows& queries : partition) {
        for (const StoredRows& key_rows : partition) {
          const KeyRows keys = KeyRows::raw(key_rows);
          const auto lists = work_lists(drawn.layout, queries, keys);
          EXPECT_TRUE(test::add_triples(lists, drawn.layout, queries, keys, covered)) << "a head read a wrong K/V head";
          kept += kept_triples(lists);
        }
      }
      EXPECT_EQ(covered, test::defined_triples(drawn));
      Index counted = 0;
      for (const auto& [triple, times] : covered) counted += times;
      EXPECT_EQ(kept, counted) << "closed form of the kept triples";
    }
  }
}

TEST(WorkLists, KeysUpToARowAndKeysBehindItAreAllKeys) {
  std::mt19937_64 random(9);
  Index behind = 0;
  for (int round = 0; round < 200; ++round) {
    const test::RandomLayout drawn = test::draw_layout(random, 36);
    SCOPED_TRACE(test::describe(drawn));
    const Partition partition = shuffled_blocks(random, drawn.n, 3);
    const StoredRows& queries = partition[0];
    for (const StoredRows& key_rows : {partition[0], partition[1]}) {
      const KeyRows keys = KeyRows::raw(key_rows);
      test::Triples together, whole;
      Index kept = 0;
      for (const core::Band part : {core::Band::upto, core::Band::after}) {
        const auto lists = work_lists(drawn.layout, queries, keys, part);
        test::Triples covered;
        test::add_triples(lists, drawn.layout, queries, keys, covered);
        Index counted = 0;
        for (const auto& [triple, times] : covered) {
          const auto [query, key, head] = triple;
          EXPECT_EQ(key <= query, part == core::Band::upto) << "query " << query << ", key " << key;
          together[triple] += times;
          counted += times;
        }
        EXPECT_EQ(kept_triples(lists), counted);
        kept += counted;
        if (part == core::Band::after) behind += counted;
      }
      const auto lists = work_lists(drawn.layout, queries, keys);
      test::add_triples(lists, drawn.layout, queries, keys, whole);
      EXPECT_EQ(together, whole);
      EXPECT_EQ(kept, kept_triples(lists));
    }
  }
  EXPECT_GT(behind, 1000);
}

TEST(WorkLists, OfABandAreItsPairsAlone) {
  std::mt19937_64 random(11);
  Index shown = 0;
  for (int round = 0; round < 200; ++round) {
    test::RandomLayout drawn = test::draw_layout(random, 36);
    drawn.layout.pattern.pairs = {{drawn.n + 1, 1 + Index(random() % 3)}};  // comb indices are row / dilation
    drawn.layout.documents = {0, drawn.n};
    const core::Band band{Index(random() % 12) - 3, Index(random() % 12) - 3};
    SCOPED_TRACE(fmt::format("{}, left {}, right {}", test::describe(drawn), band.left, band.right));
    const Partition partition = shuffled_blocks(random, drawn.n, 3);
    const KeyRows keys = KeyRows::raw(partition[1]);
    test::Triples whole, covered, expected;
    test::add_triples(work_lists(drawn.layout, partition[0], keys), drawn.layout, partition[0], keys, whole);
    const Index dilation = drawn.layout.pattern.pairs[0].dilation;
    Index counted = 0;
    for (const auto& [triple, times] : whole) {
      const Index apart = (std::get<0>(triple) - std::get<1>(triple)) / dilation;
      if (apart < -band.right || apart > band.left) continue;
      expected[triple] = times;
      counted += times;
    }
    const auto lists = work_lists(drawn.layout, partition[0], keys, band);
    test::add_triples(lists, drawn.layout, partition[0], keys, covered);
    EXPECT_EQ(covered, expected);
    EXPECT_EQ(kept_triples(lists), counted);
    shown += counted;
  }
  EXPECT_GT(shown, 1000);
}

TEST(WorkLists, OfOnePairAreThatPairsList) {
  std::mt19937_64 random(10);
  for (int round = 0; round < 50; ++round) {
    test::RandomLayout drawn = test::draw_layout(random, 36);
    SCOPED_TRACE(test::describe(drawn));
    const Partition partition = shuffled_blocks(random, drawn.n, 2);
    const KeyRows keys = KeyRows::raw(partition[1]);
    const auto whole = work_lists(drawn.layout, partition[0], keys);
    std::vector<Index> pair_of;  // [list]: its pair
    for (Index i = 0; i < Index(drawn.layout.pattern.pairs.size()); ++i) {
      const Pair& pair = drawn.layout.pattern.pairs[std::size_t(i)];
      pair_of.insert(pair_of.end(), visible_parts(pair, drawn.layout.pattern.causal).size(), i);
    }
    ASSERT_EQ(whole.size(), pair_of.size());
    for (Index i = 0; i < Index(drawn.layout.pattern.pairs.size()); ++i) {
      drawn.layout.pairs = {i, i + 1};
      const auto lists = work_lists(drawn.layout, partition[0], keys);
      ASSERT_EQ(lists.size(), whole.size());
      for (std::size_t j = 0; j < lists.size(); ++j) {
        EXPECT_EQ(lists[j].runs, i == pair_of[j] ? whole[j].runs : std::vector<core::Run>{});
        EXPECT_EQ(kept_triples({lists[j]}), i == pair_of[j] ? kept_triples({whole[j]}) : 0);
      }
    }
  }
}

TEST(WorkLists, NeverNameAQueryRowAndHeadTwiceInOneList) {
  std::mt19937_64 random(8);
  for (int round = 0; round < 200; ++round) {
    const test::RandomLayout drawn = test::draw_layout(random, 36);
    SCOPED_TRACE(test::describe(drawn));
    const Partition partition = shuffled_blocks(random, drawn.n, 3);
    for (const core::WorkList& list : work_lists(drawn.layout, partition[0], KeyRows::raw(partition[1]))) {
      std::set<std::pair<Index, Index>> seen;  // (stored row, head)
      for (const core::WorkItem& item : list.items) {
        EXPECT_GT(item.key.count, 0);
        for (Index i = 0; i < item.query.runs; ++i) {
          const core::Run& run = list.runs[std::size_t(item.query.first_run + i)];
          for (Index j = 0; j < run.count * item.head_count; ++j) {
            const Index row = run.row + j / item.head_count * run.stride;
            EXPECT_TRUE(seen.insert({row, item.head_first + j % item.head_count * item.head_stride}).second);
          }
        }
      }
    }
  }
}

TEST(WorkLists, WorkedExample) {
  const Layout layout = test::longnet_layout({{8, 2}}, true, 10, 1);
  const auto lists = work_lists(layout, StoredRows({{5, 10}}), KeyRows::raw(StoredRows({{0, 5}})));
  ASSERT_EQ(lists.size(), 1u);
  ASSERT_EQ(lists[0].items.size(), 1u);
  const core::WorkItem& item = lists[0].items[0];
  EXPECT_EQ(lists[0].runs[std::size_t(item.query.first_run)], (core::Run{3, 1, 2, 1}));
  EXPECT_EQ(lists[0].runs[std::size_t(item.key.first_run)], (core::Run{0, 0, 2, 3}));
  EXPECT_EQ(kept_triples(lists), 3);
}

TEST(WorkLists, CausalPiecesThatNobodySeesAreLeftOut) {
  const Layout layout = test::longnet_layout({{}}, true, 10, 1);
  const auto later = work_lists(layout, StoredRows({{0, 5}}), KeyRows::raw(StoredRows({{5, 10}})));
  EXPECT_TRUE(later[0].empty());
  EXPECT_TRUE(later[0].runs.empty());
  // Queries 2..5 and keys 4..7: only queries 4, 5 see any of these keys, and only keys 4, 5 are seen.
  const auto overlap = work_lists(layout, StoredRows({{2, 6}}), KeyRows::raw(StoredRows({{4, 8}})));
  ASSERT_EQ(overlap[0].items.size(), 1u);
  EXPECT_EQ(overlap[0].items[0].query.count, 2);
  EXPECT_EQ(overlap[0].items[0].key.count, 2);
  EXPECT_EQ(kept_triples(overlap), 3);
}

TEST(WorkLists, PiecesThatNoRowBeforeThemSeesAreLeftOut) {
  // Only keys after the query: of queries 2..5 and keys 0..4, queries 2, 3 and keys 3, 4 remain.
  const Layout layout = test::longnet_layout({{}}, false, 10, 1);
  const auto lists = work_lists(layout, StoredRows({{2, 6}}), KeyRows::raw(StoredRows({{0, 5}})), core::Band::after);
  ASSERT_EQ(lists[0].items.size(), 1u);
  EXPECT_EQ(lists[0].items[0].query.count, 2);
  EXPECT_EQ(lists[0].items[0].key.count, 2);
  EXPECT_EQ(kept_triples(lists), 3);
  const auto none = work_lists(layout, StoredRows({{5, 9}}), KeyRows::raw(StoredRows({{0, 5}})), core::Band::after);
  EXPECT_TRUE(none[0].empty());
}

TEST(WorkLists, CountsBeyond32Bits) {
  const Index n = Index(1) << 20;
  const Layout layout = test::longnet_layout({{}}, true, n, 8);
  EXPECT_EQ(kept_triples(work_lists(layout, StoredRows({{0, n}}), KeyRows::raw(StoredRows({{0, n}})))),
            8 * (n * (n + 1) / 2));
}

TEST(WorkLists, CountsBeyond64Bits) {
  const Index n = Index(1) << 40;  // n^2 / 2 needs 79 bits
  for (const bool causal : {true, false}) {
    const Layout layout = test::longnet_layout({{}}, causal, n, 8);
    const core::Count rows = n, all = 8 * (causal ? rows * (rows + 1) / 2 : rows * rows);
    EXPECT_TRUE(kept_triples(work_lists(layout, StoredRows({{0, n}}), KeyRows::raw(StoredRows({{0, n}})))) == all);
    EXPECT_TRUE(KeptCounts(layout).of(Interval{0, n}) == all);
    core::Count sum = 0;
    for (const StoredRows& part : contiguous_partition(n, 3)) sum += KeptCounts(layout).of(part);
    EXPECT_TRUE(sum == all);
  }
}

}  // namespace
}  // namespace annulus::pattern
