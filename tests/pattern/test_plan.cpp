// The ring's plan of every rank, made in one process: what arrives is what was sent, all that is read arrives, and no
// more than the dense ring would carry.
#include <gtest/gtest.h>

#include "annulus/pattern/plan.hpp"
#include "support/coverage.hpp"

namespace annulus::pattern {
namespace {

using test::draw_layout;
using test::RandomLayout;

std::vector<std::vector<Hop>> all_hops(const Layout& layout, const Partition& partition) {
  std::vector<std::vector<Hop>> hops;
  for (std::size_t p = 0; p < partition.size(); ++p) hops.push_back(ring_hops(layout, partition, int(p)));
  return hops;
}

bool inside(Interval inner, Interval outer) {
  return inner.empty() || (inner.begin >= outer.begin && inner.end <= outer.end);
}

TEST(RingPlan, BringsEveryKeptTripleExactlyOnce) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 200; ++round) {
    const RandomLayout drawn = draw_layout(random, 36);
    SCOPED_TRACE(test::describe(drawn));
    const int ranks = 1 + int(random() % 6);
    const Partition partition = contiguous_partition(drawn.n, ranks);
    test::Triples covered;
    for (int p = 0; p < ranks; ++p) {
      const StoredRows& queries = partition[std::size_t(p)];
      test::add_triples(work_lists(drawn.layout, queries, queries), drawn.layout, queries, queries, covered);
      for (const Hop& hop : ring_hops(drawn.layout, partition, p)) {
        const StoredRows keys({hop.receive});
        test::add_triples(work_lists(drawn.layout, queries, keys), drawn.layout, queries, keys, covered);
      }
    }
    EXPECT_EQ(covered, test::defined_triples(drawn)) << ranks << " ranks";
  }
}

TEST(RingPlan, WhatIsSentIsHeldAndIsWhatTheNeighbourExpects) {
  std::mt19937_64 random(4);
  for (int round = 0; round < 300; ++round) {
    const RandomLayout drawn = draw_layout(random, 50);
    SCOPED_TRACE(test::describe(drawn));
    const int ranks = 2 + int(random() % 6);
    const Partition partition = contiguous_partition(drawn.n, ranks);
    const auto hops = all_hops(drawn.layout, partition);
    for (int p = 0; p < ranks; ++p) {
      const auto& mine = hops[std::size_t(p)];
      const auto& next = hops[std::size_t((p + 1) % ranks)];
      ASSERT_EQ(mine.size(), next.size()) << "ranks disagree on the number of hops";
      for (std::size_t d = 0; d < mine.size(); ++d) {
        EXPECT_EQ(mine[d].send_to, (p + 1) % ranks);
        EXPECT_EQ(mine[d].receive_from, (p + ranks - 1) % ranks);
        EXPECT_EQ(mine[d].send, next[d].receive) << "rank " << p << " hop " << d + 1;
        EXPECT_EQ(mine[d].send_own, d == 0);
        const StoredRows& own = partition[std::size_t(p)];
        const Interval held = d > 0 ? mine[d - 1].receive : own.count() > 0 ? own.intervals()[0] : Interval{};
        EXPECT_TRUE(inside(mine[d].send, held)) << "rank " << p << " passes on rows it does not hold, hop " << d + 1;
      }
    }
  }
}

TEST(RingPlan, NeverCarriesMoreThanTheDenseRing) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 300; ++round) {
    const RandomLayout drawn = draw_layout(random, 60);
    SCOPED_TRACE(test::describe(drawn));
    const int ranks = 2 + int(random() % 6);
    const Partition partition = contiguous_partition(drawn.n, ranks);
    for (int p = 0; p < ranks; ++p) {
      const StoredRows& own = partition[std::size_t(p)];
      Index received = 0;
      for (const Hop& hop : ring_hops(drawn.layout, partition, p)) received += hop.receive.size();
      EXPECT_LE(received, drawn.n - own.count());
      if (drawn.layout.pattern.causal && p == 0) {
        EXPECT_EQ(received, 0) << "no earlier row, nothing to read";
      }
    }
  }
}

TEST(RingPlan, SendsNothingWhereSegmentsLieInsideRanks) {
  const Layout layout{{Semantics::longnet, {{16, 1}, {32, 4}}, false, false}, {0, 256}, 8, 8};
  for (int p = 0; p < 4; ++p) EXPECT_TRUE(ring_hops(layout, contiguous_partition(256, 4), p).empty());
}

TEST(RingPlan, DenseCarriesEverythingAndCausalStopsAtTheLastRank) {
  Layout layout{{Semantics::longnet, {{whole_document, 1}}, false, false}, {0, 64}, 2, 2};
  const Partition partition = contiguous_partition(64, 4);
  for (const auto& hops : all_hops(layout, partition)) {
    ASSERT_EQ(hops.size(), 3u);
    for (const Hop& hop : hops) EXPECT_EQ(hop.receive.size(), 16);
  }
  layout.pattern.causal = true;
  const auto causal = all_hops(layout, partition);
  for (int p = 0; p < 4; ++p) {
    Index received = 0;
    for (const Hop& hop : causal[std::size_t(p)]) received += hop.receive.size();
    EXPECT_EQ(received, 16 * p) << "rank " << p << " reads the rows before its own";
    EXPECT_TRUE(p < 3 || causal[3][0].send.empty()) << "the last rank's rows are read by nobody";
  }
}

TEST(RingPlan, WorkedExample) {
  const Layout layout{{Semantics::longnet, {{8, 1}}, false, false}, {0, 16}, 1, 1};
  const auto hops = all_hops(layout, contiguous_partition(16, 4));
  ASSERT_EQ(hops[0].size(), 3u);
  EXPECT_EQ(hops[1][0].receive, (Interval{0, 4})) << "rank 0's rows go one hop, to rank 1";
  EXPECT_TRUE(hops[2][1].receive.empty());
  EXPECT_EQ(hops[0][2].receive, (Interval{4, 8})) << "rank 1's rows come round by ranks 2 and 3";
}

TEST(RowsRead, TakesTheShortestStretchThatHoldsAllRowsRead) {
  // Offset 0 of (all, 4), one head: rows 0 4 8 12 16 20; of rank [4, 12) the rows 4 and 8 are read.
  const Layout layout{{Semantics::longnet, {{whole_document, 4}}, false, false}, {0, 24}, 1, 1};
  EXPECT_EQ(rows_read(layout, {4, 12}, {12, 24}), (Interval{4, 9}));
  EXPECT_EQ(rows_read(layout, {12, 24}, {0, 4}), (Interval{12, 21}));
  EXPECT_TRUE(rows_read(layout, {4, 12}, {13, 16}).empty()) << "the consumer has no row of the comb";
  EXPECT_TRUE(rows_read(layout, {5, 8}, {12, 24}).empty()) << "the owner has no row of the comb";
}

}  // namespace
}  // namespace annulus::pattern
