// Cuts between granules: in its segment, every comb of every pair has a multiple of `granule` rows before such a cut,
// and rows that are cut there have work lists of whole granules.
#include <gtest/gtest.h>

#include "annulus/core/error.hpp"
#include "annulus/pattern/documents_partition.hpp"
#include "annulus/pattern/granules.hpp"
#include "annulus/pattern/parts.hpp"
#include "support/coverage.hpp"

namespace annulus::pattern {
namespace {

constexpr Index granule = 4;

/// Draws a problem that can be cut between granules: segments are multiples of granule x dilation, or whole documents.
test::RandomLayout draw(std::mt19937_64& random) {
  const auto number = [&](Index low, Index high) { return std::uniform_int_distribution<Index>(low, high)(random); };
  test::RandomLayout drawn;
  drawn.n = number(200, 600);
  Layout& layout = drawn.layout;
  layout.heads = layout.kv_heads = 3;
  layout.pattern.causal = number(0, 1) == 1;
  layout.documents = {0, drawn.n};
  for (Index cuts = number(0, 3); cuts > 0; --cuts) layout.documents.push_back(number(0, drawn.n));
  std::sort(layout.documents.begin(), layout.documents.end());
  layout.pattern.pairs.clear();
  for (Index pairs = number(1, 3); pairs > 0; --pairs) {
    const Index dilation = number(1, 4);
    const Index segment = number(0, 2) == 0 ? whole_document : granule * dilation * number(1, 12);
    layout.pattern.pairs.push_back({segment, dilation});
  }
  layout.granule = granule;
  return drawn;
}

CutGrid grid_of(const Layout& layout) { return {layout.pattern, layout.documents, layout.granule}; }

/// Every kind of partition, and random cuts.
std::vector<Partition> partitions(const test::RandomLayout& drawn, int ranks, std::mt19937_64& random) {
  std::vector<Index> cuts{0, drawn.n};
  for (int p = 1; p < ranks; ++p) cuts.push_back(Index(random() % std::uint64_t(drawn.n)));
  std::sort(cuts.begin(), cuts.end());
  Partition uneven;
  for (int p = 0; p < ranks; ++p) uneven.push_back(StoredRows({{cuts[std::size_t(p)], cuts[std::size_t(p) + 1]}}));
  return {contiguous_partition(drawn.n, ranks), zigzag_partition(drawn.layout.documents, ranks),
          block_cyclic_partition(drawn.n, ranks, 50), documents_partition(drawn.layout, ranks), uneven};
}

TEST(CutGrid, NoCombIsCutInsideAGranule) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 200; ++round) {
    const test::RandomLayout drawn = draw(random);
    SCOPED_TRACE(test::describe(drawn));
    const CutGrid grid = grid_of(drawn.layout);
    Index before = 0;
    for (Index row = 0; row <= drawn.n; ++row) {
      const Index cut = grid.nearest(row);
      EXPECT_GE(cut, before) << "a higher row has no lower cut";
      before = cut;
      EXPECT_EQ(grid.nearest(cut), cut) << "a cut is its own nearest";
      if (cut == drawn.n) continue;
      for (const Pair& pair : drawn.layout.pattern.pairs) {
        const Interval segment = segment_of(pair, drawn.layout.documents, cut);
        for (Index offset = 0; offset < pair.dilation; ++offset) {
          const Comb comb = comb_of(segment, pair.dilation, offset);
          EXPECT_EQ(indices_within(comb, {segment.begin, cut}).size() % granule, 0) << "row " << cut;
        }
      }
    }
  }
}

TEST(CutGrid, PartitionsOnItHaveAllRowsOnceAndWorkListsOfWholeGranules) {
  std::mt19937_64 random(4);
  Index refused = 0;
  for (int round = 0; round < 60; ++round) {
    const test::RandomLayout drawn = draw(random);
    SCOPED_TRACE(test::describe(drawn));
    const CutGrid grid = grid_of(drawn.layout);
    const int ranks = 2 + int(random() % 3);
    for (const Partition& anywhere : partitions(drawn, ranks, random)) {
      const Partition partition = on_grid(anywhere, grid);
      ASSERT_EQ(partition.size(), anywhere.size());
      EXPECT_EQ(united(partition, {0, ranks}).intervals(), (std::vector<Interval>{{0, drawn.n}}));
      std::vector<Partition> all{partition};
      for (Index slice = 0; slice < 2; ++slice) all.push_back(nth_share_of_rows(partition, 2, slice, grid));
      if (const auto parts = ordered_parts(drawn.layout.documents, partition, grid)) {
        all.push_back(*parts);
        for (Index slice = 0; slice < 2; ++slice) all.push_back(nth_share_of_rows(*parts, 2, slice, grid));
      }
      for (const Partition& one : all) {
        for (const StoredRows& queries : one) {
          for (const StoredRows& keys : one) {
            EXPECT_NO_THROW(work_lists(drawn.layout, queries, KeyRows::raw(keys)));
            EXPECT_NO_THROW(work_lists(drawn.layout, queries, KeyRows::raw(keys), core::Band::upto));
            EXPECT_NO_THROW(work_lists(drawn.layout, queries, KeyRows::raw(keys), core::Band::after));
          }
        }
      }
      try {
        for (const StoredRows& rows : anywhere) work_lists(drawn.layout, rows, KeyRows::raw(rows));
      } catch (const core::Error&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 100) << "cuts elsewhere are not noticed";
}

TEST(CutGrid, SlicesAndBlocksAreAsEvenAsPlacesAllow) {
  const Documents documents{0, 100'000};
  const CutGrid grid({.pairs = {{2048, 1}, {4096, 2}, {whole_document, 4}}}, documents, 16);
  const StoredRows rows({{128, 328}});
  EXPECT_EQ(even_part(rows, 2, 0, grid), (Interval{0, 128}));
  EXPECT_EQ(even_part(rows, 2, 1, grid), (Interval{128, 200}));
  EXPECT_EQ(even_part(rows, 2, 1), (Interval{100, 200})) << "cut anywhere";
  EXPECT_EQ(grid.widest(), 64);
  EXPECT_EQ(CutGrid().widest(), 1);
  const Partition anywhere{StoredRows({{0, 5}}), StoredRows({{5, 7}, {9, 11}})};
  EXPECT_EQ(nth_share_of_rows(anywhere, 2, 0)[0].intervals(), (std::vector<Interval>{{3, 5}}));
  EXPECT_EQ(nth_share_of_rows(anywhere, 2, 0)[1].intervals(), (std::vector<Interval>{{9, 11}}));
}

/// Cuts are possible every 4 rows here, and at the end: 0, 4, 8, 10.
TEST(CutGrid, TheNearestPlaceIsTakenAndOfTwoTheLower) {
  Pattern pattern;
  pattern.pairs = {{8, 2}};
  const Documents documents{0, 10};
  const CutGrid grid(pattern, documents, 2);
  const std::vector<Index> nearest{0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 10};
  for (Index row = 0; row <= 10; ++row) EXPECT_EQ(grid.nearest(row), nearest[std::size_t(row)]) << row;
}

TEST(CutGrid, RowsOfGapsAreCuts) {
  Documents documents{0, 700, 5000, 5900};
  documents.gaps = {1};
  const CutGrid grid({.pairs = {{whole_document, 2000}}}, documents, 16);
  EXPECT_EQ(grid.nearest(3333), 3333);
  EXPECT_EQ(grid.widest(), 900) << "the longest document";
}

TEST(CutGrid, SaysWhyThereIsNone) {
  EXPECT_EQ(why_no_grid({.pairs = {{2048, 1}, {whole_document, 64}}}, 16), "");
  EXPECT_EQ(why_no_grid({.pairs = {{1000, 1}}}, 16), "segments of 1000 rows at dilation 1 are no multiples of 16 x 1");
  EXPECT_EQ(why_no_grid({.pairs = {{1024, 3}}}, 16), "segments of 1024 rows at dilation 3 are no multiples of 16 x 3");
}

TEST(CutGrid, MayHaveNoPlaceInsideADocument) {
  const Index prime = (Index(1) << 61) - 1;
  for (const Pattern& wide : {Pattern{.pairs = {{whole_document, 2000}}},
                              Pattern{.pairs = {{whole_document, prime}, {whole_document, prime - 1}}}}) {
    const Documents documents{0, 700, 1700};
    const CutGrid grid(wide, documents, 16);
    EXPECT_EQ(grid.widest(), 1000) << "the longest document";
    EXPECT_EQ(grid.nearest(300), 0);
    EXPECT_EQ(grid.nearest(351), 700);
    EXPECT_EQ(grid.nearest(1500), 1700);
    const Partition ranks = on_grid(contiguous_partition(1700, 3), grid);
    EXPECT_EQ(ranks[0].count(), 700);
    EXPECT_EQ(ranks[1].count(), 0);
    EXPECT_EQ(ranks[2].count(), 1000);
  }
}

}  // namespace
}  // namespace annulus::pattern
