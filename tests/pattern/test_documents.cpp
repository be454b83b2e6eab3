// Whole documents dealt to ranks: every row once, equal work, no rank with far too many rows, cuts only where needed.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "annulus/pattern/document_cut.hpp"
#include "annulus/pattern/documents_partition.hpp"
#include "annulus/pattern/hops.hpp"
#include "annulus/pattern/shared_documents.hpp"
#include "support/random_layout.hpp"

namespace annulus::pattern {
namespace {

/// Documents of equal, uniform or log-normal lengths, in any order or sorted; some are empty or have one row.
Documents draw_documents(std::mt19937_64& random, Index count) {
  std::lognormal_distribution<double> spread(2.5, 0.3 + 0.3 * double(random() % 5));
  std::vector<Index> lengths;
  const std::uint64_t kind = random() % 4;
  for (Index d = 0; d < count; ++d) {
    lengths.push_back(kind == 0 ? 12 : kind == 1 ? Index(random() % 30) : Index(std::min(4000.0, spread(random))));
  }
  if (random() % 3 == 0) std::sort(lengths.begin(), lengths.end());
  Documents documents{0};
  for (const Index length : lengths) documents.push_back(documents.back() + length);
  if (documents.back() == 0) documents.push_back(1);
  return documents;
}

/// A random layout with documents from draw_documents().
Layout draw(std::mt19937_64& random, Index documents) {
  Layout layout = test::draw_layout(random, 60).layout;
  layout.documents = draw_documents(random, documents);
  return layout;
}

std::string describe(const Layout& layout, int ranks) {
  return std::to_string(ranks) + " ranks: " + test::describe({layout.documents.back(), layout});
}

Count work_of(const KeptCounts& kept, const StoredRows& rows) { return kept.of(rows) + rows.count(); }

/// How far work may be off, because cuts lie between rows: the work of four rows, each of which sees a whole document
/// in every pair and head.
Count rounding(const Layout& layout) {
  Index longest = 0;
  for (std::size_t d = 0; d + 1 < layout.documents.size(); ++d) {
    longest = std::max(longest, layout.documents[d + 1] - layout.documents[d]);
  }
  return 4 * (1 + Count(longest) * layout.heads * Index(layout.pattern.pairs.size()));
}

TEST(Documents, RowsWithoutTheFirstOfEach) {
  Documents documents = documents_at({{3, 6}, {6, 8}, {9, 10}}, 12);
  EXPECT_EQ(rows_without_first(documents, 0), (std::vector<core::Interval>{{3, 6}, {6, 8}, {9, 10}}));
  EXPECT_EQ(rows_without_first(documents, 1), (std::vector<core::Interval>{{4, 6}, {7, 8}}));
  EXPECT_EQ(rows_without_first(documents, 3), std::vector<core::Interval>{});
  EXPECT_EQ(rows_without_first({0, 2, 2, 5}, 1), (std::vector<core::Interval>{{1, 2}, {3, 5}}));
}

TEST(DocumentsPartition, HoldsEveryRowOnceAndInOrder) {
  std::mt19937_64 random(41);
  for (int round = 0; round < 300; ++round) {
    const Layout layout = draw(random, 1 + Index(random() % 30));
    const int ranks = 1 + int(random() % 40);  // often more than documents, sometimes more than rows
    SCOPED_TRACE(describe(layout, ranks));
    const Partition partition = documents_partition(layout, ranks);
    ASSERT_EQ(partition.size(), std::size_t(ranks));
    std::vector<Index> met(std::size_t(layout.documents.back()));
    for (const StoredRows& rows : partition) {
      Index last = -1;
      for (const Interval& interval : rows.intervals()) {
        ASSERT_GT(interval.begin, last) << "ascending, and neighbours are one interval";
        last = interval.end;
        for (Index row = interval.begin; row < interval.end; ++row) ++met[std::size_t(row)];
      }
    }
    ASSERT_EQ(met, std::vector<Index>(met.size(), 1));
  }
}

TEST(DocumentsPartition, BalancesWorkAndDoesNotCrowdRows) {
  std::mt19937_64 random(42);
  double worst_work = 0, worst_rows = 0;
  for (int round = 0; round < 400; ++round) {
    const Layout layout = draw(random, 2 + Index(random() % 400));
    const int ranks = 2 + int(random() % 20);
    SCOPED_TRACE(describe(layout, ranks));
    const KeptCounts kept(layout);
    const Index n = layout.documents.back();
    const double share = double(kept.of(Interval{0, n}) + n) / ranks, mean = double(n) / ranks;
    Index longest = 0;
    for (std::size_t d = 0; d + 1 < layout.documents.size(); ++d) {
      longest = std::max(longest, layout.documents[d + 1] - layout.documents[d]);
    }
    for (const StoredRows& rows : documents_partition(layout, ranks)) {
      const double work = double(work_of(kept, rows) - rounding(layout)), count = double(rows.count() - longest);
      worst_work = std::max(worst_work, work / share);
      worst_rows = std::max(worst_rows, count / mean);
      EXPECT_LE(work, 1.07 * share);
      EXPECT_LE(count, 2.1 * mean);
    }
  }
  EXPECT_GT(worst_rows, 1.2) << "no rank had many rows: this test shows nothing";
  std::printf("work up to %.3f of a fair share, rows up to %.3f of the mean and a document\n", worst_work, worst_rows);
}

TEST(DocumentsPartition, CutsOnlyWhatNoRankHasRoomForAndOverFewRanks) {
  std::mt19937_64 random(43);
  Index cut = 0, whole = 0;
  for (int round = 0; round < 200; ++round) {
    Layout layout = test::longnet_layout({{}}, random() % 2 == 0, 0, 2);
    std::lognormal_distribution<double> spread(3, 0.7);
    layout.documents = {0};
    for (Index d = 0; d < 400; ++d) {
      const Index length = d % 97 == 5 && round % 2 == 0 ? 400 + Index(random() % 1000) : Index(spread(random));
      layout.documents.push_back(layout.documents.back() + length);
    }
    const int ranks = 2 + int(random() % 12);
    SCOPED_TRACE(describe(layout, ranks));
    const KeptCounts kept(layout);
    const Count share = (kept.of(Interval{0, every_row}) + layout.documents.back() + ranks - 1) / ranks;
    std::map<Index, std::set<Index>> holders;  // [first row of a cut document]: its ranks
    std::size_t parts = 0;
    for (const SharedPiece& piece : shared_pieces(layout.documents, documents_partition(layout, ranks))) {
      holders[piece.document.begin].insert(piece.rank);
    }
    for (const auto& [begin, by] : holders) parts += by.size();
    // Documents with more than a share of the work fill one rank after another. Then documents that fit on no rank do.
    EXPECT_LE(parts, std::size_t(2 * ranks) + holders.size());
    for (std::size_t d = 0; d + 1 < layout.documents.size(); ++d) {
      const Interval document{layout.documents[d], layout.documents[d + 1]};
      EXPECT_TRUE(work_of(kept, document) <= share + share / 16 || holders.count(document.begin) == 1);
    }
    for (const auto& [begin, by] : holders) {
      EXPECT_TRUE(round % 2 == 0 || work_of(kept, document_of(layout.documents, begin)) > share) << "large ones only";
    }
    cut += Index(holders.size());
    whole += holders.empty();
  }
  EXPECT_GT(cut, 20);
  EXPECT_GT(whole, 20);
}

TEST(DocumentsPartition, OfOneDocumentIsZigzagOrContiguous) {
  Layout layout = test::longnet_layout({{}, {16, 2}}, true, 97, 4);
  layout.documents = {0, 0, 97, 97};
  for (const int ranks : {1, 3, 8, 100}) {
    for (const bool causal : {true, false}) {
      layout.pattern.causal = causal;
      const Partition expected = causal ? zigzag_partition({0, 97}, ranks) : contiguous_partition(97, ranks);
      const Partition found = documents_partition(layout, ranks);
      for (std::size_t p = 0; p < expected.size(); ++p) EXPECT_EQ(found[p].intervals(), expected[p].intervals());
    }
  }
}

TEST(DocumentsPartition, WorkedExamples) {
  // Dense, one head, not causal. Work (rows squared, plus rows): 16 rows 272, 4 rows 20; a rank's fair share F is 216.
  Layout layout = test::longnet_layout({{}}, false, 0, 1);
  layout.documents = {0, 4, 8, 24, 28, 32, 36, 40, 44, 48};  // a long one after two short ones
  const Partition two = documents_partition(layout, 2);
  EXPECT_EQ(two[0].intervals(), (std::vector<Interval>{{8, 21}})) << "the first of its ranks is full: 13 rows, 221";
  EXPECT_EQ(two[1].intervals(), (std::vector<Interval>{{0, 8}, {21, 48}}));
  // Causal, 40 rows 860, 16 rows 152, F = 388: the long one fills rank 0, then the next ranks in the ring.
  layout.pattern.causal = true;
  layout.documents = {0, 16, 56, 72};
  const Partition three = documents_partition(layout, 3);
  EXPECT_EQ(three[0].intervals(), (std::vector<Interval>{{16, 26}, {46, 56}}));
  EXPECT_EQ(three[1].intervals(), (std::vector<Interval>{{26, 35}, {37, 46}}));
  EXPECT_EQ(three[2].intervals(), (std::vector<Interval>{{0, 16}, {35, 37}, {56, 72}}));
  layout.pattern.causal = false;
  // Eight equal documents: each rank has two.
  layout.documents = {0, 4, 8, 12, 16, 20, 24, 28, 32};
  const Partition four = documents_partition(layout, 4);
  for (const StoredRows& rows : four) EXPECT_EQ(rows.count(), 8);
  EXPECT_TRUE(shared_pieces(layout.documents, four).empty());
}

/// One document with nearly all the work and many short ones: if only work counted, one rank would get all short ones.
TEST(DocumentsPartition, SpreadsShortDocumentsThatWouldCrowdOnOneRank) {
  for (const bool causal : {true, false}) {
    Layout layout = test::longnet_layout({{}}, causal, 0, 1);
    layout.documents = {0, 10000};
    for (Index d = 0; d < 3000; ++d) layout.documents.push_back(layout.documents.back() + 10);
    const Partition partition = documents_partition(layout, 16);
    const KeptCounts kept(layout);
    for (const StoredRows& rows : partition) {
      EXPECT_LE(double(rows.count()), 1.02 * 40000 / 16);
      EXPECT_LE(double(kept.of(rows)), 1.02 * double(kept.of(Interval{0, every_row})) / 16);
    }
  }
}

TEST(DocumentsPartition, IsInOrderWhereNoCausalDocumentIsCut) {
  std::mt19937_64 random(44);
  Index out = 0, in = 0;
  for (int round = 0; round < 200; ++round) {
    const Layout layout = draw(random, 2 + Index(random() % 60));
    const int ranks = 2 + int(random() % 6);
    const auto pieces = shared_pieces(layout.documents, documents_partition(layout, ranks));
    const auto document = document_out_of_order(pieces);
    SCOPED_TRACE(describe(layout, ranks));
    EXPECT_TRUE(!document || (layout.pattern.causal && !pieces.empty()));
    (document ? out : in) += 1;
  }
  EXPECT_GT(out, 20);
  EXPECT_GT(in, 100);
  const Documents documents{0, 4, 16};
  EXPECT_EQ(document_out_of_order(shared_pieces(documents, zigzag_partition(documents, 2))), (Interval{0, 4}));
  EXPECT_FALSE(document_out_of_order(shared_pieces(documents, contiguous_partition(16, 3))));
}

/// Ranks between those that share a document read nothing of it: runs of readers (readers.hpp) must end there.
TEST(DocumentsPartition, SendsWhatIsReadAndNothingElse) {
  std::mt19937_64 random(46);
  Index jumps = 0, travelled = 0;
  for (int round = 0; round < 300; ++round) {
    const Layout layout = draw(random, 2 + Index(random() % 12));
    const int ranks = 2 + int(random() % 9);
    SCOPED_TRACE(describe(layout, ranks));
    const Partition partition = documents_partition(layout, ranks);
    const auto pieces = shared_pieces(layout.documents, partition);
    for (std::size_t i = 1; i < pieces.size(); ++i) {
      jumps += pieces[i].document == pieces[i - 1].document && std::abs(pieces[i].rank - pieces[i - 1].rank) > 1;
    }
    const Hops hops(layout, partition, partition, From::owners, 1, ranks - 1);
    for (int p = 0; p < ranks; ++p) {
      for (int h = 0; h + 1 < ranks; ++h) {
        const StoredRows& owner = partition[std::size_t(hops.owner(p, h))];
        const Index read = head_rows(rows_read(layout, owner, partition[std::size_t(p)]));
        EXPECT_EQ(hops.rows_received(p, h), read) << "rank " << p << " of " << hops.owner(p, h);
        travelled += read;
      }
    }
  }
  EXPECT_GT(jumps, 20);
  EXPECT_GT(travelled, 1000);
}

TEST(DocumentCut, GivesEveryPartItsWork) {
  std::mt19937_64 random(45);
  for (int round = 0; round < 300; ++round) {
    const Layout layout = draw(random, 3);
    const KeptCounts kept(layout);
    const Interval document = document_of(layout.documents, Index(random() % std::uint64_t(layout.documents.back())));
    const Index count = 1 + Index(random() % 9);
    const Count work = work_of(kept, document);
    std::vector<WorkPart> parts;
    Count left = work;
    for (Index p = 0; p < count; ++p) {
      const Count part = p + 1 == count ? left : std::min<Count>(left, Count(random() % std::uint64_t(work)));
      if (part > 0 || p + 1 == count) parts.push_back({p, part});
      left -= part;
    }
    SCOPED_TRACE(describe(layout, int(count)));
    std::vector<std::vector<Interval>> rows(static_cast<std::size_t>(count));
    cut_document(kept, layout.pattern.causal, document, parts, rows);
    Index held = 0;
    for (const WorkPart& part : parts) {
      const StoredRows own = joined(rows[std::size_t(part.rank)]);
      held += own.count();
      const Count missed = work_of(kept, own) - part.work;
      EXPECT_LE(missed, rounding(layout));
      EXPECT_GE(missed, -rounding(layout));
    }
    EXPECT_EQ(held, document.size());
  }
}

TEST(DocumentCut, WorkedExample) {
  const KeptCounts kept(test::longnet_layout({{}}, true, 16, 1));
  std::vector<std::vector<Interval>> rows(2);
  cut_document(kept, true, {0, 16}, {{0, 76}, {1, 76}}, rows);  // 136 kept triples and 16 rows
  EXPECT_EQ(rows[0], (std::vector<Interval>{{0, 4}, {12, 16}}));
  EXPECT_EQ(rows[1], (std::vector<Interval>{{4, 12}}));
}

TEST(SharedPieces, OfAnIntervalThatEndsInTwoDocuments) {
  const auto pieces = shared_pieces({0, 4, 10, 12}, {StoredRows({{0, 6}}), StoredRows({{6, 12}})});
  ASSERT_EQ(pieces.size(), 2u);
  EXPECT_EQ(pieces[0].document, (Interval{4, 10}));
  EXPECT_EQ(pieces[0].rows, (Interval{4, 6}));
  EXPECT_EQ(pieces[1].rows, (Interval{6, 10}));
  EXPECT_EQ(pieces[1].rank, 1);
}

}  // namespace
}  // namespace annulus::pattern
