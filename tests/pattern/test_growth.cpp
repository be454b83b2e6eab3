// Planning packed documents takes work in proportion to their number: counted, not timed. Every search and every work
// item calls indices_within(), and dealing documents calls KeptCounts::of(). The linker makes these calls go through a
// counter of this test.
#include <gtest/gtest.h>

#include <functional>

#include "annulus/pattern/counts.hpp"
#include "annulus/pattern/documents_partition.hpp"
#include "annulus/pattern/traffic.hpp"
#include "support/random_layout.hpp"
#include "support/spelled_hops.hpp"

namespace annulus::pattern {
namespace {
Index questions = 0;
}

#ifdef __clang__
#pragma clang diagnostic ignored "-Wreturn-type-c-linkage"  // only their names have the form of C
#endif

// NOLINTBEGIN(bugprone-reserved-identifier): the linker gives these names.
// indices_within(const Comb&, Interval), as compilers that follow the Itanium ABI name it: see CMakeLists.txt.
extern "C" Interval __real__ZN7annulus7pattern14indices_withinERKNS0_4CombENS_4core8IntervalE(const Comb&, Interval);
extern "C" Interval __wrap__ZN7annulus7pattern14indices_withinERKNS0_4CombENS_4core8IntervalE(const Comb& comb,
                                                                                              Interval rows) {
  ++questions;
  return __real__ZN7annulus7pattern14indices_withinERKNS0_4CombENS_4core8IntervalE(comb, rows);
}

// KeptCounts::of(Interval) const
extern "C" Count __real__ZNK7annulus7pattern10KeptCounts2ofENS_4core8IntervalE(const KeptCounts*, Interval);
extern "C" Count __wrap__ZNK7annulus7pattern10KeptCounts2ofENS_4core8IntervalE(const KeptCounts* counts,
                                                                               Interval rows) {
  ++questions;
  return __real__ZNK7annulus7pattern10KeptCounts2ofENS_4core8IntervalE(counts, rows);
}
// NOLINTEND(bugprone-reserved-identifier)

namespace {

/// `count` documents of 8 rows, with one of `longest` rows in their middle.
Layout packed(Index count, Index longest, bool causal) {
  Layout layout = test::longnet_layout({{}, {4, 2}}, causal, 0, 2);
  layout.documents = {0};
  for (Index d = 0; d < count; ++d) {
    if (d == count / 2) layout.documents.push_back(layout.documents.back() + longest);
    layout.documents.push_back(layout.documents.back() + 8);
  }
  return layout;
}

Partition cut(const Layout& layout, PartitionKind kind, int ranks) {
  const Index n = layout.documents.back();
  if (kind == PartitionKind::zigzag) return zigzag_partition(layout.documents, ranks);
  if (kind == PartitionKind::documents) return documents_partition(layout, ranks);
  return kind == PartitionKind::contiguous ? contiguous_partition(n, ranks) : block_cyclic_partition(n, ranks, 3);
}

/// Everything that a rank plans: the exchanges, the hops of gradients, and the work on the rows that arrive.
void plan(const Layout& layout, const Partition& partition, int rank) {
  const StoredRows& rows = partition[std::size_t(rank)];
  work_lists(layout, rows, KeyRows::raw(rows));
  for (const From from : {From::owners, From::neighbours}) {
    const Hops hops(layout, partition, partition, from, 1, int(partition.size()) - 1);
    for (int h = 0; h < hops.count(rank); ++h) {
      work_lists(layout, rows, KeyRows::packed(hops.hop(rank, h).receive));
      hops.gradients(rank, h);
    }
  }
}

TEST(Planning, TakesQuestionsInProportionToTheDocuments) {
  constexpr int ranks = 4;
  for (const auto& entry : partition_table) {
    for (const bool causal : {true, false}) {
      const auto asked = [&](Index documents) {
        const Layout layout = packed(documents, 1000, causal);
        const Partition partition = cut(layout, entry.value, ranks);
        questions = 0;
        plan(layout, partition, 1);
        work_lists(layout, partition[1], KeyRows::raw(StoredRows({{0, layout.documents.back()}})));
        return questions;
      };
      // The long document's share of the work is the same in all three.
      const Index none = asked(0), few = asked(500) - none, many = asked(2000) - none;
      EXPECT_GT(few, 500 / ranks) << entry.name;
      EXPECT_LE(many, 4.1 * double(few)) << entry.name << (causal ? ", causal" : "");
      EXPECT_LE(none, 20000) << entry.name << ": one document of 1,000 rows";
    }
  }
}

/// Rows are dealt one by one to as many ranks as the dilation. So all rows of a rank have one offset, and a search
/// among them for a row of another offset must look at all of them.
TEST(Planning, LooksForWhatARankHoldsOfACombOnce) {
  const auto asked = [](Index n) {
    const Layout layout = test::longnet_layout({{whole_document, 4}}, true, n, 4);
    const Partition partition = block_cyclic_partition(n, 4, 1);
    questions = 0;
    test::rotation_hops(layout, partition, 1);
    return questions;
  };
  const Index few = asked(400), many = asked(1600);
  EXPECT_GE(few, 400);
  EXPECT_LE(many, 4.1 * double(few));
}

TEST(Planning, DealsDocumentsInProportionToTheirNumberAndEveryCutAtOnce) {
  const auto asked = [](Index documents, int ranks) {
    const Layout layout = packed(documents, 100000, true);
    questions = 0;
    documents_partition(layout, ranks);
    return questions;
  };
  const Index few = asked(1000, 4), many = asked(4000, 4);
  EXPECT_GE(few, 1000);
  EXPECT_LE(many, 4.1 * double(few));
  EXPECT_LE(asked(1000, 4096) - few, 20 * 4096) << "a cut is a search that begins where it expects the cut";
}

TEST(Planning, CountsTrafficInProportionToTheDocuments) {
  const auto asked = [](Index documents, PartitionKind kind) {
    const Layout layout = packed(documents, 1000, true);
    const Partition partition = cut(layout, kind, 4);
    questions = 0;
    const TrafficCounts counts = traffic_counts(layout, partition, partition, CountedTraffic::rows_and_sums);
    EXPECT_LT(counts.accuracy, Accuracy::bound) << documents;
    return questions;
  };
  const Index few = asked(1000, PartitionKind::zigzag), many = asked(4000, PartitionKind::zigzag);
  EXPECT_GT(few, 1000);
  EXPECT_LE(many, 4.1 * double(few));
  EXPECT_LE(10 * asked(4000, PartitionKind::documents), few) << "whole documents do not travel";
}

/// Counts what every rank sends in every hop, with documents that are cut for many ranks. Calls grow with the number
/// of pieces, not with pieces times ranks.
TEST(Planning, CountsHopsInProportionToThePieces) {
  const auto asked = [](int ranks, bool causal) {
    Layout layout = test::longnet_layout({{}, {4, 2}}, causal, 0, 2);
    layout.documents = {0};
    for (int d = 0; d < 100; ++d) layout.documents.push_back(layout.documents.back() + 300);
    const Partition partition = zigzag_partition(layout.documents, ranks);
    Index pieces = 0, sent = 0;
    for (const StoredRows& rows : partition) pieces += Index(rows.intervals().size());
    questions = 0;
    for (const From from : {From::owners, From::neighbours}) {
      const Hops hops(layout, partition, partition, from, 1, ranks - 1);
      for (int rank = 0; rank < ranks; ++rank) {
        for (int h = 0; h < hops.count(rank); ++h) sent += hops.rows_sent(rank, h);
      }
    }
    EXPECT_GT(sent, layout.documents.back());
    return double(questions) / double(pieces);
  };
  for (const bool causal : {true, false}) {
    EXPECT_GT(asked(8, causal), 1);
    EXPECT_LE(asked(64, causal), 12) << "two exchanges, two pairs, two offsets of one of them";
  }
}

/// A window with a large dilation has a range for each offset. If each range were compared with all others, this test
/// would take an hour.
TEST(Planning, OfAWindowOfAMillionCombsEnds) {
  const Layout layout = test::longnet_layout({{whole_document, 1000000, Window{1, 0}}}, true, 4000000, 1);
  const Partition partition = contiguous_partition(4000000, 3);
  const PackedRows read = rows_read(layout, partition[0], partition[1]);
  EXPECT_EQ(read, (PackedRows{{{0, 1333334}, {{{333334, 1, 1000000}}}}})) << "a million pieces of one row";
}

/// If joining, passing on or looking up rows took quadratic time, this test would take an hour, not seconds.
TEST(Planning, OfEightyThousandDocumentsEnds) {
  const Layout layout = packed(80000, 20000, false);
  const Partition partition = zigzag_partition(layout.documents, 2);
  Index rows = 0;
  for (int p = 0; p < 2; ++p) rows += partition[std::size_t(p)].count();
  EXPECT_EQ(rows, layout.documents.back());
  plan(layout, partition, 1);
  const KeptCounts counts(layout);
  Count kept = 0;
  for (const StoredRows& one : partition) kept += counts.of(one);
  // Both heads see whole documents. Besides, each head sees the two rows of every segment of 4 that its offset picks.
  EXPECT_EQ(kept, 2 * (Count(80000) * 64 + Count(20000) * 20000) + 2 * (Count(80000) * 8 + 5000 * 4));
}

}  // namespace
}  // namespace annulus::pattern
