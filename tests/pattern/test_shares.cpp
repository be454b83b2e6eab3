// Shares of the heads: for any partition, exactly one share computes each kept triple, and a share has only the K/V
// heads that it reads.
#include <gtest/gtest.h>

#include "annulus/pattern/documents_partition.hpp"
#include "annulus/pattern/plan.hpp"
#include "support/coverage.hpp"

namespace annulus::pattern {
namespace {

using test::draw_layout;
using test::RandomLayout;

/// The layout of share `i` of `shares`.
Layout share_of(const Layout& whole, Index shares, Index i) {
  Layout layout = whole;
  layout.share = core::even_part(whole.heads, shares, i);
  return layout;
}

/// Adds the triples that a rank computes for its share of the heads, from its own rows and from the rows that it reads
/// of every other rank. Returns the number of kept triples by the closed form.
Index add_rank(const Layout& layout, const Partition& partition, std::size_t rank, test::Triples& covered) {
  Index kept = 0;
  const auto add = [&](const KeyRows& keys) {
    const auto lists = work_lists(layout, partition[rank], keys);
    EXPECT_TRUE(test::add_triples(lists, layout, partition[rank], keys, covered)) << "a head read a wrong K/V head";
    for (const core::WorkList& list : lists) {
      for (const core::WorkItem& item : list.items) {
        EXPECT_LT(item.kv_head, layout.key_heads().size());
        EXPECT_GE(item.head_first, 0);
        EXPECT_LT(item.head_first + (item.head_count - 1) * item.head_stride, layout.query_heads().size());
      }
    }
    kept += kept_triples(lists);
  };
  add(KeyRows::raw(partition[rank]));
  for (std::size_t owner = 0; owner < partition.size(); ++owner) {
    if (owner == rank) continue;
    const PackedRows packed = rows_read(layout, partition[owner], partition[rank]);
    for (const OwnerInterval& owned : packed) EXPECT_EQ(Index(owned.heads.size()), layout.key_heads().size());
    add(KeyRows::packed(packed));
  }
  return kept;
}

TEST(Shares, TogetherCoverTheDefinitionExactlyOnce) {
  std::mt19937_64 random(21);
  for (int round = 0; round < 150; ++round) {
    const RandomLayout drawn = draw_layout(random, 36);
    const Index shares = 1 + Index(random() % 11);  // often more than there are heads
    const int ranks = 1 + int(random() % 4);
    SCOPED_TRACE(test::describe(drawn) + ", shares " + std::to_string(shares) + ", ranks " + std::to_string(ranks));
    for (const Partition& partition :
         {contiguous_partition(drawn.n, ranks), zigzag_partition(drawn.layout.documents, ranks),
          documents_partition(drawn.layout, ranks)}) {
      test::Triples covered;
      Index kept = 0, counted = 0;
      for (Index i = 0; i < shares; ++i) {
        const Layout layout = share_of(drawn.layout, shares, i);
        for (std::size_t rank = 0; rank < partition.size(); ++rank) kept += add_rank(layout, partition, rank, covered);
      }
      EXPECT_EQ(covered, test::defined_triples(drawn));
      for (const auto& [triple, times] : covered) counted += times;
      EXPECT_EQ(kept, counted) << "closed form of the kept triples";
    }
  }
}

TEST(Shares, NumberTheirHeadsFromZeroAndKeepTheirOffsets) {
  // H = 6, r = 3: heads 0 1 are at offset 0, heads 2 3 at 1, heads 4 5 at 2. The share [2, 5) reads K/V heads 0 and 1.
  Layout layout;
  layout.pattern.pairs = {{whole_document, 3}};
  layout.pattern.causal = false;
  layout.documents = {0, 3};
  layout.heads = 6;
  layout.kv_heads = 2;
  EXPECT_EQ(layout.query_heads(), (Interval{0, 6}));
  EXPECT_EQ(layout.key_heads(), (Interval{0, 2}));
  layout.share = {2, 5};
  EXPECT_EQ(layout.query_heads(), (Interval{2, 5}));
  EXPECT_EQ(layout.key_heads(), (Interval{0, 2}));
  const StoredRows rows({{0, 3}});
  const auto lists = work_lists(layout, rows, KeyRows::raw(rows));
  ASSERT_EQ(lists[0].items.size(), 3u);                            // row 1: head 2, then head 3; row 2: head 4
  const Index expected[3][3] = {{1, 0, 0}, {1, 1, 1}, {2, 2, 1}};  // row, head and K/V head of the share
  for (std::size_t i = 0; i < 3; ++i) {
    const core::WorkItem& item = lists[0].items[i];
    EXPECT_EQ(lists[0].runs[std::size_t(item.query.first_run)].row, expected[i][0]);
    EXPECT_EQ(item.head_first, expected[i][1]);
    EXPECT_EQ(item.kv_head, expected[i][2]);
    EXPECT_EQ(item.head_count, 1);
  }
  layout.share = {4, 5};
  EXPECT_EQ(layout.key_heads(), (Interval{1, 2}));
}

TEST(Shares, WithoutHeadsHaveNoWorkAndReadNothing) {
  Layout layout;
  layout.documents = {0, 8};
  layout.heads = 2;
  layout.share = {2, 2};
  EXPECT_TRUE(layout.key_heads().empty());
  const Partition partition = contiguous_partition(8, 2);
  EXPECT_EQ(kept_triples(work_lists(layout, partition[0], KeyRows::raw(partition[0]))), 0);
  EXPECT_TRUE(rows_read(layout, partition[0], partition[1]).empty());
}

TEST(Union, JoinsTheRowsOfRanksAndSaysWhereEachIs) {
  const Partition zigzag = zigzag_partition({0, 16}, 4);  // rank p: [2p, 2p + 2) and [14 - 2p, 16 - 2p)
  const StoredRows first = united(zigzag, {0, 2});
  EXPECT_EQ(first.intervals(), (std::vector<Interval>{{0, 4}, {12, 16}}));
  EXPECT_EQ(stored_intervals(first, zigzag[0]), (std::vector<Interval>{{0, 2}, {6, 8}}));
  EXPECT_EQ(stored_intervals(first, zigzag[1]), (std::vector<Interval>{{2, 4}, {4, 6}}));
  EXPECT_EQ(united(zigzag, {0, 4}).intervals(), (std::vector<Interval>{{0, 16}}));
  EXPECT_TRUE(stored_intervals(first, StoredRows()).empty());
}

TEST(Union, OfAnyRanksHoldsEachOfTheirRowsAtItsPlace) {
  for (const int ranks : {2, 3, 5}) {
    for (const Partition& partition : {contiguous_partition(31, ranks), zigzag_partition({0, 4, 17, 31}, ranks),
                                       block_cyclic_partition(31, ranks, 2), contiguous_partition(2, ranks)}) {
      const StoredRows whole = united(partition, {1, ranks});
      Index count = 0;
      for (int p = 1; p < ranks; ++p) {
        const StoredRows& part = partition[std::size_t(p)];
        const std::vector<Interval> stored = stored_intervals(whole, part);
        ASSERT_EQ(stored.size(), part.intervals().size());
        for (std::size_t i = 0; i < stored.size(); ++i) {
          for (Index j = 0; j < stored[i].size(); ++j) {
            EXPECT_EQ(test::global_row(whole, stored[i].begin + j), part.intervals()[i].begin + j);
          }
        }
        count += part.count();
      }
      EXPECT_EQ(whole.count(), count);
    }
  }
}

}  // namespace
}  // namespace annulus::pattern
