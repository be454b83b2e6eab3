// Closed forms against enumeration: kept triples of every rank; rows and messages of every exchange.
#include <gtest/gtest.h>

#include "annulus/pattern/counts.hpp"
#include "annulus/pattern/documents_partition.hpp"
#include "annulus/pattern/gradient_hops.hpp"
#include "annulus/pattern/traffic_bound.hpp"
#include "support/random_layout.hpp"
#include "support/spelled_hops.hpp"

namespace annulus::pattern {
namespace {

using test::draw_layout;
using test::RandomLayout;

std::vector<Partition> partitions(const RandomLayout& drawn, int ranks, Index block) {
  return {contiguous_partition(drawn.n, ranks), zigzag_partition(drawn.layout.documents, ranks),
          block_cyclic_partition(drawn.n, ranks, block), documents_partition(drawn.layout, ranks)};
}

Layout layout_of(std::vector<Pair> pairs, bool causal, Index n, Index heads) {
  Layout layout;
  layout.pattern.pairs = std::move(pairs);
  layout.pattern.causal = causal;
  layout.documents = {0, n};
  layout.heads = layout.kv_heads = heads;
  return layout;
}

TrafficCounts counts_of_rows(const Layout& layout, const Partition& partition) {
  return traffic_counts(layout, partition, partition, CountedTraffic::rows);
}

/// Adds one rank's hops.
void add(const std::vector<test::HopList>& channels, std::size_t rank, Traffic& sum) {
  for (const test::HopList& hops : channels) {
    for (const Hop& hop : hops) {
      const Index rows = head_rows(hop.receive);
      sum.received[rank] += rows;
      sum.sent[rank] += head_rows(hop.send);
      sum.messages[rank] += rows > 0 ? 1 : 0;
      sum.largest = std::max(sum.largest, rows);
    }
  }
}

/// Adds what one rank does with the sums of gradients.
void add(const std::vector<test::GradientHopList>& channels, std::size_t rank, Traffic& sum) {
  for (const test::GradientHopList& hops : channels) {
    for (const GradientHop& hop : hops) {
      sum.sent[rank] += head_rows(hop.send_forward) + head_rows(hop.send_back);
      for (const Index rows : {head_rows(hop.receive_forward), head_rows(hop.receive_back)}) {
        sum.received[rank] += rows;
        sum.messages[rank] += rows > 0 ? 1 : 0;
        sum.largest = std::max(sum.largest, rows);
      }
    }
  }
}

TrafficCounts enumerated(const Layout& layout, const Partition& partition) {
  const std::vector<Index> none(partition.size());
  const Traffic nothing{none, none, none, 0};
  TrafficCounts counts{nothing, nothing, nothing, nothing, nothing, Accuracy::exact};
  const int ranks = int(partition.size());
  for (int p = 0; p < ranks; ++p) {
    add({test::rotation_hops(layout, partition, p)}, std::size_t(p), counts.direct);
    add({test::ring_hops(layout, partition, p, 1, ranks - 1)}, std::size_t(p), counts.ring);
    add({test::ring_hops(layout, partition, p, 1, ranks / 2),
         test::ring_hops(layout, partition, p, -1, (ranks - 1) / 2)},
        std::size_t(p), counts.both_ways);
    add({test::ring_gradients(layout, partition, p, 1, ranks - 1)}, std::size_t(p), counts.ring_sums);
    add({test::ring_gradients(layout, partition, p, 1, ranks / 2),
         test::ring_gradients(layout, partition, p, -1, (ranks - 1) / 2)},
        std::size_t(p), counts.both_ways_sums);
  }
  return counts;
}

void expect_same(const TrafficCounts& counts, const TrafficCounts& expected) {
  EXPECT_EQ(counts.direct, expected.direct);
  EXPECT_EQ(counts.ring, expected.ring);
  EXPECT_EQ(counts.both_ways, expected.both_ways);
  EXPECT_EQ(counts.ring_sums, expected.ring_sums);
  EXPECT_EQ(counts.both_ways_sums, expected.both_ways_sums);
}

TEST(KeptCounts, EqualTheWorkListsOfEveryRank) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 400; ++round) {
    const RandomLayout drawn = draw_layout(random, 90);
    const int ranks = 1 + int(random() % 64);
    const KeptCounts counts(drawn.layout);
    const auto all = KeyRows::raw(StoredRows({{0, drawn.n}}));
    for (const Partition& partition : partitions(drawn, ranks, 1 + Index(random() % 7))) {
      Count total = 0;
      for (const StoredRows& rows : partition) {
        EXPECT_EQ(counts.of(rows), kept_triples(work_lists(drawn.layout, rows, all)))
            << ranks << " ranks: " << test::describe(drawn);
        total += counts.of(rows);
      }
      EXPECT_EQ(total, counts.of(Interval{0, drawn.n}));
    }
  }
}

TEST(KeptCounts, WorkedExample) {
  const KeptCounts counts(layout_of({{8, 2}}, true, 10, 1));
  EXPECT_EQ(counts.of(Interval{0, 7}), 10);
  EXPECT_EQ(counts.of(Interval{0, 9}), 11);
  EXPECT_EQ(counts.of(Interval{0, 10}), 11);
}

TEST(TrafficCounts, EqualTheHopsOfEveryRank) {
  std::mt19937_64 random(12);
  int exact = 0, estimates = 0;
  for (int round = 0; round < 150; ++round) {
    const RandomLayout drawn = draw_layout(random, round % 3 == 0 ? 60 : 600);
    const int ranks = 1 + int(random() % (round % 10 == 0 ? 24 : 12));
    for (const Partition& partition : partitions(drawn, ranks, 10 + Index(random() % 20))) {
      SCOPED_TRACE(std::to_string(ranks) + " ranks: " + test::describe(drawn));
      const TrafficCounts counts = traffic_counts(drawn.layout, partition, partition, CountedTraffic::rows_and_sums);
      (counts.accuracy == Accuracy::exact ? exact : estimates) += 1;
      if (counts.accuracy == Accuracy::exact) expect_same(counts, enumerated(drawn.layout, partition));
    }
  }
  EXPECT_GT(exact, 150) << "most settings have ranks of more rows than the largest dilation";
  EXPECT_GT(estimates, 20);
}

TEST(TrafficCounts, OfTheMainSetting) {
  // 65,536 rows, segments 2048 8192 32768 all, dilations 1 4 16 64, P = 4: a rank receives 6 MiB, in the ring 9 MiB.
  const Layout layout = layout_of({{2048, 1}, {8192, 4}, {32768, 16}, {whole_document, 64}}, false, 65536, 8);
  const TrafficCounts counts = counts_of_rows(layout, contiguous_partition(65536, 4));
  const Index mib = 1024 * 1024 / (2 * 64 * 4);  // (row, head) pairs in 1 MiB: K and V, 64 float32 each
  EXPECT_EQ(counts.accuracy, Accuracy::exact);
  EXPECT_EQ(counts.direct.received, (std::vector<Index>(4, 6 * mib)));
  EXPECT_EQ(counts.ring.received, (std::vector<Index>(4, 9 * mib)));
  EXPECT_EQ(counts.direct.messages, (std::vector<Index>(4, 3)));
}

TEST(TrafficCounts, SayWhenTheyAreNoMoreThanAnEstimateOrABound) {
  const Layout layout = layout_of({{whole_document, 16}}, true, 1024, 4);
  EXPECT_EQ(counts_of_rows(layout, contiguous_partition(1024, 64)).accuracy, Accuracy::exact)
      << "16 rows, every offset";
  EXPECT_EQ(counts_of_rows(layout, contiguous_partition(1024, 128)).accuracy, Accuracy::estimate) << "8 rows";
  EXPECT_EQ(counts_of_rows(layout, block_cyclic_partition(1024, 16, 8)).accuracy, Accuracy::estimate);
  EXPECT_EQ(counts_of_rows(layout, block_cyclic_partition(1024, 2, 1)).accuracy, Accuracy::estimate);
  Layout longer = layout_of({{whole_document, 16}}, true, 4096, 4);
  const TrafficCounts bound = counts_of_rows(longer, block_cyclic_partition(4096, 2, 1));
  EXPECT_EQ(bound.accuracy, Accuracy::bound) << "2048 intervals on each rank";
  EXPECT_EQ(bound.direct.received[0], 2048 * 4);
  longer.share = {1, 2};
  EXPECT_EQ(counts_of_rows(longer, block_cyclic_partition(4096, 2, 1)).ring.received[0], 2048) << "one head of four";
}

/// The pattern of input/what_would_it_take.yaml: what cannot be counted on P ranks cannot be counted on more ranks.
TEST(TrafficCounts, AreABoundFromSomeNumberOfRanksOnAndOfZigzagNever) {
  const Layout layout =
      layout_of({{1 << 14, 1}, {1 << 16, 4}, {1 << 18, 16}, {1 << 20, 64}, {whole_document, 256}}, true, 100000000, 16);
  bool before = true;  // whether block_cyclic was affordable on fewer ranks
  int counted = 0;
  for (int ranks = 16; ranks <= 65536; ranks += ranks / 4) {
    EXPECT_TRUE(is_affordable(layout, zigzag_partition(layout.documents, ranks))) << ranks;
    const bool now = is_affordable(layout, block_cyclic_partition(100000000, ranks, 100000000 / (8 * ranks) + 1));
    EXPECT_LE(now, before) << ranks;
    counted += before = now;
  }
  EXPECT_GT(counted, 5);
  EXPECT_FALSE(before);
}

}  // namespace
}  // namespace annulus::pattern
