// Parts of partitions: every row once, where its rank stores it, and in order.
#include <gtest/gtest.h>

#include "annulus/pattern/documents_partition.hpp"
#include "annulus/pattern/parts.hpp"
#include "annulus/pattern/shared_documents.hpp"
#include "support/random_layout.hpp"

namespace annulus::pattern {
namespace {

/// [row]: the rank that has it, and its stored row there.
using Places = std::vector<std::pair<int, Index>>;

void note(const StoredRows& rows, int rank, Places& places) {
  for (std::size_t i = 0; i < rows.intervals().size(); ++i) {
    const Interval& one = rows.intervals()[i];
    for (Index row = one.begin; row < one.end; ++row) {
      auto& place = places[std::size_t(row)];
      EXPECT_EQ(place.first, -1) << "row " << row << " twice";
      place = {rank, rows.stored_begin(i) + row - one.begin};
    }
  }
}

/// Where all rows are stored, found from the parts of the ranks.
Places places_of(const Partition& parts, int ranks, Index n) {
  Places places(std::size_t(n), {-1, -1});
  for (int part = 0; part < int(parts.size()); ++part)
    note(parts[std::size_t(part)], rank_of_part(part, ranks), places);
  return places;
}

TEST(OrderedParts, HaveEveryRowOnceWhereItsRankStoresIt) {
  std::mt19937_64 random(71);
  Index in_order = 0, in_parts = 0;
  for (int round = 0; round < 300; ++round) {
    const Layout layout = test::draw_layout(random, 200).layout;
    const int ranks = 1 + int(random() % 6);
    const Index n = layout.documents.back();
    SCOPED_TRACE(std::to_string(ranks) + " ranks: " + test::describe({n, layout}));
    for (const Partition& partition : {zigzag_partition(layout.documents, ranks), contiguous_partition(n, ranks),
                                       documents_partition(layout, ranks)}) {
      const std::optional<Partition> parts = ordered_parts(layout.documents, partition);
      ASSERT_TRUE(parts);
      EXPECT_EQ(places_of(*parts, ranks, n), places_of(partition, ranks, n));
      EXPECT_FALSE(document_out_of_order(shared_pieces(layout.documents, *parts)));
      ASSERT_TRUE(parts->size() == std::size_t(ranks) || parts->size() == std::size_t(2 * ranks));
      (parts->size() == std::size_t(ranks) ? in_order : in_parts) += 1;
    }
  }
  EXPECT_GT(in_order, 300);
  EXPECT_GT(in_parts, 100);
}

/// 8 rows on 2 ranks, the example of parts.hpp; then two documents, whose rows meet in one interval of rank 0.
TEST(OrderedParts, GoUpThroughTheRanksAndBackDown) {
  const auto parts = ordered_parts({0, 8}, zigzag_partition({0, 8}, 2));
  ASSERT_TRUE(parts && parts->size() == 4);
  EXPECT_EQ((*parts)[0].intervals(), (std::vector<Interval>{{0, 2}}));
  EXPECT_EQ((*parts)[1].intervals(), (std::vector<Interval>{{2, 4}}));
  EXPECT_EQ((*parts)[2].intervals(), (std::vector<Interval>{{4, 6}}));
  EXPECT_EQ((*parts)[2].stored_begin(0), 2);
  EXPECT_EQ((*parts)[3].intervals(), (std::vector<Interval>{{6, 8}}));
  EXPECT_EQ((*parts)[3].stored_begin(0), 2);
  EXPECT_EQ(taken((*parts)[3], {1, 2}).intervals(), (std::vector<Interval>{{7, 8}})) << "rows of the part";
  // Rows 8 and 9, neighbours on rank 0, are the last of a document and the first of the next one.
  const auto two = ordered_parts({0, 9, 19}, zigzag_partition({0, 9, 19}, 2));
  ASSERT_TRUE(two && two->size() == 4);
  EXPECT_EQ((*two)[0].intervals().front(), (Interval{0, 3}));
  EXPECT_EQ((*two)[0].intervals().back().begin, 9);
  EXPECT_EQ((*two)[3].intervals().front().end, 9);
}

TEST(OrderedParts, OtherCutsHaveNone) {
  EXPECT_FALSE(ordered_parts({0, 12}, block_cyclic_partition(12, 2, 2))) << "three intervals of a rank";
  EXPECT_FALSE(ordered_parts({0, 12}, block_cyclic_partition(12, 3, 2))) << "up, and up again";
  const Partition down{StoredRows({{8, 12}}), StoredRows({{4, 8}}), StoredRows({{0, 4}})};
  EXPECT_EQ(ordered_parts({0, 12}, down)->size(), 6u) << "downwards alone";
  EXPECT_EQ(ordered_parts({0, 4, 8, 12}, down)->size(), 3u) << "a document each";
  const Partition jumps{StoredRows({{0, 4}}), StoredRows({{8, 12}}), StoredRows({{4, 8}})};
  EXPECT_EQ(ordered_parts({0, 12}, jumps)->size(), 6u) << "the middle is on the last rank";
  const Partition back{StoredRows({{4, 8}}), StoredRows({{0, 4}}), StoredRows({{8, 12}})};
  EXPECT_FALSE(ordered_parts({0, 12}, back));
}

}  // namespace
}  // namespace annulus::pattern
