// Combs against the definition, "row x is picked when (x mod w) mod r == o", tried for every row.
#include <gtest/gtest.h>

#include <set>

#include "annulus/pattern/combs.hpp"
#include "annulus/pattern/partition.hpp"
#include "support/random_layout.hpp"

namespace annulus::pattern {
namespace {

/// Heads of a set, written out.
std::vector<Index> members(const HeadSet& set) {
  std::vector<Index> heads;
  for (Index i = 0; i < set.count; ++i) heads.push_back(set.first + i * set.stride);
  return heads;
}

/// The offset of a head by the table of the definition; -1 if semantics is grouped and the pair is not the head's.
Index defined_offset(const Pattern& pattern, Index pair, Index head, Index heads) {
  const Index r = pattern.pairs[std::size_t(pair)].dilation, groups = Index(pattern.pairs.size());
  if (pattern.semantics == Semantics::longnet || pattern.semantics == Semantics::torchscale)
    return head / ((heads + r - 1) / r);
  if (pattern.semantics == Semantics::paper) return head % r;
  Index group = 0;  // counts the heads off: each of the first `heads mod groups` groups has one head more
  for (Index left = head;; ++group) {
    const Index size = heads / groups + (group < heads % groups ? 1 : 0);
    if (left < size) break;
    left -= size;
  }
  return group == pair ? pair % r : -1;
}

TEST(Combs, EveryHeadIsAtItsDefinedOffsetAndNowhereElse) {
  for (const auto& entry : semantics_table) {
    for (Index heads = 1; heads <= 9; ++heads) {
      for (Index r = 1; r <= 11; ++r) {
        Pattern pattern{entry.value, {{4, r}, {8, r}, {pattern::whole_document, r}}, false, false};
        if (entry.value == Semantics::grouped && heads < 3) pattern.pairs.resize(1);
        for (Index pair = 0; pair < Index(pattern.pairs.size()); ++pair) {
          std::vector<std::set<Index>> found(static_cast<std::size_t>(heads));
          for (const UsedOffset& used : used_offsets(pattern, pair, heads)) {
            EXPECT_LT(used.offset, r);
            for (const Index head : members(used.heads)) found.at(std::size_t(head)).insert(used.offset);
          }
          for (Index head = 0; head < heads; ++head) {
            const Index offset = defined_offset(pattern, pair, head, heads);
            const std::set<Index> expected = offset < 0 ? std::set<Index>{} : std::set<Index>{offset};
            EXPECT_EQ(found[std::size_t(head)], expected)
                << entry.name << " H " << heads << " r " << r << " head " << head;
          }
        }
      }
    }
  }
}

/// visit() visits the offsets whose comb has a row in the interval, and no others.
TEST(Combs, ThoseWithARowInAnIntervalAreVisited) {
  for (const bool is_window : {false, true}) {
    for (const Index r : {1, 2, 5, 8, 40}) {
      Pattern pattern{Semantics::paper, {{whole_document, r}}, false, false};
      if (is_window) pattern.pairs[0].window = Window{2, 2};
      const PairCombs combs(pattern, 0, 3);
      const Interval segment{7, 30};
      for (Index begin = 5; begin < 32; ++begin) {
        for (Index end = begin; end < 33; ++end) {
          std::vector<Index> found, expected;
          combs.visit(segment, {begin, end}, [&](const UsedOffset& used, std::size_t i) {
            found.push_back(used.offset);
            EXPECT_EQ(is_window ? 0 : combs.offsets().at(i).offset, is_window ? Index(i) : used.offset);
            EXPECT_EQ(used.heads, heads_at_offset(pattern, 0, used.offset, 3));
          });
          for (const UsedOffset& used : used_offsets(pattern, 0, 3, 23)) {
            if (!indices_within(comb_of(segment, r, used.offset), {begin, end}).empty())
              expected.push_back(used.offset);
          }
          EXPECT_EQ(found, expected) << r << " rows " << begin << " to " << end;
        }
      }
    }
  }
}

TEST(Combs, HaveARowHoweverLargeTheDilation) {
  EXPECT_EQ(comb_of({0, 100}, std::numeric_limits<Index>::max(), 99).count, 1);
  EXPECT_EQ(comb_of({0, 100}, 1'000'000'000'000, 0).count, 1);
  EXPECT_EQ(comb_of({0, 100}, 1'000'000'000'000, 100).count, 0);
}

/// Only combs that have a row are listed: if all 10^12 combs of the window were listed, this test would run for hours.
TEST(Combs, OfAWindowAreNotListed) {
  Pattern pattern{Semantics::longnet, {{whole_document, 1'000'000'000'000, Window{2, 2}}}, false, false};
  std::vector<Index> found;
  PairCombs(pattern, 0, 3).visit({0, Index(1) << 40}, {7, 9}, [&](const UsedOffset& used, std::size_t) {
    found.push_back(used.offset);
  });
  EXPECT_EQ(found, (std::vector<Index>{7, 8}));
}

TEST(Combs, HeadSetsAreCutToRanges) {
  const HeadSet odd{1, 3, 4};  // 1 4 7 10
  EXPECT_EQ(members(intersect(odd, {2, 8})), (std::vector<Index>{4, 7}));
  EXPECT_EQ(members(intersect(odd, {0, 2})), (std::vector<Index>{1}));
  EXPECT_EQ(members(intersect(odd, {10, 30})), (std::vector<Index>{10}));
  EXPECT_TRUE(members(intersect(odd, {11, 30})).empty());
  EXPECT_TRUE(members(intersect(odd, {8, 10})).empty());
}

TEST(Combs, PickTheRowsOfTheDefinition) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 300; ++round) {
    const test::RandomLayout drawn = test::draw_layout(random, 40);
    SCOPED_TRACE(test::describe(drawn));
    const Layout& layout = drawn.layout;
    for (std::size_t i = 0; i < layout.pattern.pairs.size(); ++i) {
      const Pair& pair = layout.pattern.pairs[i];
      for (const UsedOffset& used : used_offsets(layout.pattern, Index(i), layout.heads)) {
        std::set<Index> picked, expected;
        for (const Interval& segment : segments_touching(pair, layout.documents, {0, drawn.n})) {
          const Comb comb = comb_of(segment, pair.dilation, used.offset);
          for (Index t = 0; t < comb.count; ++t) EXPECT_TRUE(picked.insert(comb.row(t)).second) << "row met twice";
        }
        for (Index x = 0; x < drawn.n; ++x) {
          Index start = 0, document = -1;  // first row and number of x's document
          for (const Index border : layout.documents) {
            if (border <= x) start = border, ++document;
          }
          const std::vector<Index>& gaps = layout.documents.gaps;
          if (std::find(gaps.begin(), gaps.end(), document) != gaps.end()) continue;
          const Index in_document = x - start;
          const Index in_segment = pair.segment == whole_document ? in_document : in_document % pair.segment;
          if (in_segment % pair.dilation == used.offset) expected.insert(x);
        }
        EXPECT_EQ(picked, expected) << "pair " << i << " offset " << used.offset;
      }
    }
  }
}

TEST(Combs, IndicesWithinAnIntervalAreExactlyThoseRows) {
  for (const Comb comb : {Comb{3, 4, 5}, Comb{0, 1, 7}, Comb{9, 100, 1}, Comb{2, 3, 0}}) {
    for (Index a = 0; a < 30; ++a) {
      for (Index b = a; b < 30; ++b) {
        const Interval t = indices_within(comb, {a, b});
        Index inside = 0;
        for (Index s = 0; s < comb.count; ++s) {
          const bool in = comb.row(s) >= a && comb.row(s) < b;
          inside += in ? 1 : 0;
          EXPECT_EQ(in, s >= t.begin && s < t.end) << "rows [" << a << ", " << b << "), index " << s;
        }
        EXPECT_EQ(t.size(), inside);
      }
    }
  }
}

TEST(Combs, SegmentsStopAtDocumentBorders) {
  const Documents documents{0, 5, 5, 12};
  EXPECT_EQ(segment_of({4, 1}, documents, 4), (Interval{4, 5}));
  EXPECT_EQ(segment_of({4, 1}, documents, 5), (Interval{5, 9}));
  EXPECT_EQ(segment_of({4, 1}, documents, 11), (Interval{9, 12}));
  EXPECT_EQ(segment_of({whole_document, 1}, documents, 6), (Interval{5, 12}));
}

TEST(Combs, GapsHaveNoSegments) {
  Documents documents{0, 3, 6, 8, 10};  // the worked example: rows 3, 4, 5 and 6, 7 exist
  documents.gaps = {0, 3};
  EXPECT_EQ(documents, pattern::documents_at({{3, 6}, {6, 8}}, 10));
  EXPECT_EQ(documents.count(), 2);
  EXPECT_EQ(segments_touching({2, 1}, documents, {0, 10}), (std::vector<Interval>{{3, 5}, {5, 6}, {6, 8}}));
  EXPECT_EQ(segments_touching({whole_document, 1}, documents, {1, 4}), (std::vector<Interval>{{3, 6}}));
  EXPECT_TRUE(segments_touching({2, 1}, documents, {8, 10}).empty());
  EXPECT_EQ(document_of(documents, 5), (Interval{3, 6}));
  EXPECT_EQ(document_of(documents, 1), (Interval{1, 2})) << "a row alone, so that a gap may be cut anywhere";
  EXPECT_EQ(pattern::in_gaps(documents, {2, 9}), (std::vector<Interval>{{2, 3}, {8, 9}}));
  EXPECT_TRUE(pattern::in_gaps(documents, {3, 8}).empty());
  EXPECT_EQ(pattern::count_in_gaps(documents, {{0, 2}, {5, 10}}), 4);
  EXPECT_TRUE(pattern::documents_at({{0, 4}, {4, 4}, {4, 9}}, 9).gaps.empty());
  const Documents none = pattern::documents_at({{2, 2}}, 5);
  EXPECT_EQ(none.count(), 1) << "an empty document";
  EXPECT_EQ(pattern::count_in_gaps(none, {{0, 5}}), 5);
}

TEST(Partition, HoldsEveryRowOnceInOrderAndEvenly) {
  for (const Index n : {0, 1, 2, 3, 7, 64, 97}) {
    for (int ranks = 1; ranks <= 9; ++ranks) {
      Index next = 0;
      for (const StoredRows& rows : contiguous_partition(n, ranks)) {
        EXPECT_LE(rows.intervals().size(), 1u);
        if (rows.count() > 0) {
          EXPECT_EQ(rows.intervals().front(), (Interval{next, next + rows.count()}));
        }
        EXPECT_GE(rows.count(), n / ranks);
        EXPECT_LE(rows.count(), (n + ranks - 1) / ranks);
        next += rows.count();
      }
      EXPECT_EQ(next, n);
      EXPECT_EQ(root_partition(n, ranks)[0].count(), n);
      EXPECT_EQ(root_partition(n, ranks).size(), std::size_t(ranks));
    }
  }
}

TEST(Partition, ZigzagAndBlockCyclicHoldEveryRowOnce) {
  for (const Documents& documents : {Documents{0, 97}, Documents{0, 3, 3, 40, 97}, Documents{0, 1}}) {
    for (int ranks = 1; ranks <= 9; ++ranks) {
      for (const Partition& partition :
           {zigzag_partition(documents, ranks), block_cyclic_partition(documents.back(), ranks, 5)}) {
        std::vector<Index> met(std::size_t(documents.back()));
        for (const StoredRows& rows : partition) {
          Index last = -1;
          for (const Interval& interval : rows.intervals()) {
            EXPECT_GT(interval.begin, last) << "ascending, and neighbours are one interval";
            last = interval.end;
            for (Index row = interval.begin; row < interval.end; ++row) ++met[std::size_t(row)];
          }
        }
        EXPECT_EQ(met, std::vector<Index>(met.size(), 1)) << ranks << " ranks";
      }
    }
  }
  EXPECT_EQ(zigzag_partition({0, 16}, 2)[0].intervals(), (std::vector<Interval>{{0, 4}, {12, 16}}));
  EXPECT_EQ(zigzag_partition({0, 16}, 2)[1].intervals(), (std::vector<Interval>{{4, 12}}));
}

TEST(Partition, StoredRowsFollowOneAnother) {
  const StoredRows rows({{4, 6}, {7, 7}, {10, 13}});
  ASSERT_EQ(rows.intervals().size(), 2u);
  EXPECT_EQ(rows.count(), 5);
  EXPECT_EQ(rows.stored_begin(0), 0);
  EXPECT_EQ(rows.stored_begin(1), 2);
}

}  // namespace
}  // namespace annulus::pattern
