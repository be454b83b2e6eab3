// Pairs that are windows: which rows travel for them, and their counts on more ranks than can be enumerated. Coverage,
// exchanges, order, and counts on few ranks are tested together with other pairs: random_layout.hpp draws both.
#include <gtest/gtest.h>

#include <set>

#include "annulus/pattern/counts.hpp"
#include "annulus/pattern/traffic.hpp"
#include "support/coverage.hpp"
#include "support/spelled_hops.hpp"

namespace annulus::pattern {
namespace {

Pair window_pair(Window window, Index dilation = 1) { return {whole_document, dilation, window}; }

/// Keys that a query of head 0 sees, ascending, each as often as it counts.
std::vector<Index> seen_by(const Layout& layout, Index query) {
  const StoredRows rows({{0, layout.documents.back()}});
  test::Triples triples;
  test::add_triples(work_lists(layout, rows, KeyRows::raw(rows)), layout, rows, KeyRows::raw(rows), triples);
  std::vector<Index> keys;
  for (const auto& [triple, times] : triples) {
    const auto [x, p, head] = triple;
    if (x == query && head == 0) keys.insert(keys.end(), std::size_t(times), p);
  }
  return keys;
}

TEST(Windows, WorkedExamples) {
  using Rows = std::vector<Index>;
  EXPECT_EQ(seen_by(test::longnet_layout({window_pair({2, 0}, 3)}, true, 12, 2), 10), (Rows{4, 7, 10}));
  EXPECT_EQ(seen_by(test::longnet_layout({window_pair({2, 1}, 3)}, false, 24, 1), 10), (Rows{4, 7, 10, 13}));
  EXPECT_EQ(seen_by(test::longnet_layout({window_pair({2, 1}, 3)}, true, 24, 1), 10), (Rows{4, 7, 10})) << "causal";
  const Layout first = test::longnet_layout({window_pair({1, 1, 4})}, false, 12, 1);
  EXPECT_EQ(seen_by(first, 10), (Rows{0, 1, 2, 3, 9, 10, 11}));
  EXPECT_EQ(seen_by(first, 1), (Rows{0, 1, 2, 3})) << "inside the window and after it, each once";
  const Layout two = test::longnet_layout({window_pair({2, 0}), {4, 1}}, true, 12, 1);
  EXPECT_EQ(seen_by(two, 5), (Rows{3, 4, 4, 5, 5})) << "with segment 4..7";
  Layout documents = test::longnet_layout({window_pair({3, 0, 2})}, true, 12, 1);
  documents.documents = {0, 5, 12};
  EXPECT_EQ(seen_by(documents, 11), (Rows{5, 6, 8, 9, 10, 11})) << "rows of the row's own document";
}

TEST(Windows, OfAGroupAreOfItsHeadsAlone) {
  Layout layout = test::longnet_layout({window_pair({1, 0}, 2), {4, 1}}, true, 12, 5);
  layout.pattern.semantics = Semantics::grouped;
  EXPECT_EQ(heads_at_offset(layout.pattern, 0, 1, 5), (HeadSet{0, 1, 3}));
  EXPECT_EQ(used_offsets(layout.pattern, 0, 5).size(), 2u) << "every row is picked";
  EXPECT_EQ(used_offsets(layout.pattern, 1, 5)[0].heads, (HeadSet{3, 1, 2}));
}

TEST(Windows, PartsAreInTheOrderOfKeys) {
  using core::Band;
  const auto bands = [](const Window& window, bool causal) {
    std::vector<Band> all;
    for (const VisiblePart& part : visible_parts(window_pair(window), causal)) all.push_back(part.band);
    return all;
  };
  EXPECT_EQ(bands({1, 1, 3}, false), (std::vector<Band>{{-2, Band::unbounded}, {1, 1}, {Band::unbounded, -2}}));
  EXPECT_EQ(bands({1, 1, 3}, true), (std::vector<Band>{{1, 0}, {Band::unbounded, -2}}));
  EXPECT_EQ(bands({4, 2}, false), (std::vector<Band>{{4, 2}}));
}

TEST(Windows, AreWrittenAsInARunFile) {
  EXPECT_EQ(segment_text(window_pair({3, 0})), "{window: [3, 0]}");
  EXPECT_EQ(segment_text(window_pair({3, 1, 4})), "{window: [3, 1], first: 4}");
  EXPECT_EQ(segment_text({2048, 1}), "2048");
  EXPECT_EQ(segment_text({}), "all");
}

/// Number of (row, key/value head) pairs of `owner` that queries of `reader` see by the definition.
Index rows_seen(const test::RandomLayout& drawn, const test::Triples& triples, const StoredRows& owner,
                const StoredRows& reader) {
  const auto held = [](const StoredRows& rows, Index row) {
    const std::size_t i = rows.first_ending_after(row);
    return i < rows.intervals().size() && rows.intervals()[i].begin <= row;
  };
  std::set<std::pair<Index, Index>> seen;
  for (const auto& [triple, times] : triples) {
    const auto [x, p, head] = triple;
    if (held(reader, x) && held(owner, p)) seen.emplace(p, head / drawn.layout.group());
  }
  return Index(seen.size());
}

/// For windows, exactly the rows that queries see travel; for segments, whole pieces of combs may travel.
TEST(Windows, OnlyRowsThatAreReadTravel) {
  const std::uint64_t seed = 21;
  std::mt19937_64 random(seed);
  Index moved = 0;
  for (int round = 0; round < 200; ++round) {
    test::RandomLayout drawn = test::draw_layout(random, 60);
    const Index dilation = 1 + Index(random() % 4);
    drawn.layout.pattern.semantics = Semantics::longnet;
    drawn.layout.pattern.pairs = {window_pair(test::draw_window(random, drawn.n, dilation), dilation)};
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + test::describe(drawn));
    const test::Triples triples = test::defined_triples(drawn);
    const int ranks = 2 + int(random() % 4);
    for (const Partition& partition : {contiguous_partition(drawn.n, ranks), block_cyclic_partition(drawn.n, ranks, 7),
                                       zigzag_partition(drawn.layout.documents, ranks)}) {
      for (int p = 0; p < ranks; ++p) {
        for (const Hop& hop : test::rotation_hops(drawn.layout, partition, p)) {
          const Index read =
              rows_seen(drawn, triples, partition[std::size_t(hop.receive_from)], partition[std::size_t(p)]);
          EXPECT_EQ(head_rows(hop.receive), read) << "rank " << p << " of " << ranks << " from " << hop.receive_from;
          moved += read;
        }
      }
    }
  }
  EXPECT_GT(moved, 5000);
}

TEST(Windows, AHaloTravels) {
  const Partition partition = contiguous_partition(64, 4);
  const auto received = [&](const Layout& layout, int rank) {
    PackedRows all;
    for (const Hop& hop : test::rotation_hops(layout, partition, rank)) all = join(std::move(all), hop.receive);
    return all;
  };
  // left = 5: the 5 rows before the rank's own rows. left = 2 with dilation 3: the 6 rows before its own rows.
  EXPECT_EQ(received(test::longnet_layout({window_pair({5, 0})}, true, 64, 1), 2),
            (PackedRows{{{16, 32}, {{{27, 1, 5}}}}}));
  EXPECT_EQ(received(test::longnet_layout({window_pair({2, 0}, 3)}, true, 64, 1), 2),
            (PackedRows{{{16, 32}, {{{26, 1, 6}}}}}));
  EXPECT_EQ(received(test::longnet_layout({window_pair({2, 4})}, false, 64, 1), 1),
            (PackedRows{{{0, 16}, {{{14, 1, 2}}}}, {{32, 48}, {{{32, 1, 4}}}}}));
  EXPECT_EQ(received(test::longnet_layout({window_pair({1, 0, 2})}, true, 64, 1), 3),
            (PackedRows{{{0, 16}, {{{0, 1, 2}}}}, {{32, 48}, {{{47, 1, 1}}}}}));
}

TEST(Windows, HaloesBeginWithAGranule) {
  Layout layout = test::longnet_layout({window_pair({5, 0})}, true, 64, 1);
  layout.granule = 4;
  const PackedRows read = rows_read(layout, StoredRows({{16, 32}}), StoredRows({{32, 48}}));
  EXPECT_EQ(read, (PackedRows{{{16, 32}, {{{24, 1, 8}}}}})) << "rows 27 to 31, and the others of row 27's granule";
  const StoredRows queries({{32, 48}});
  const auto lists = work_lists(layout, queries, KeyRows::packed(read));
  EXPECT_EQ(kept_triples(lists), 5 + 4 + 3 + 2 + 1);
}

/// All 65,536 ranks, and windows that lie inside one rank or reach over many.
TEST(Windows, OfManyRanksAreCounted) {
  constexpr Index n = Index(1) << 26, ranks = 65536, rows = n / ranks;
  const Partition partition = contiguous_partition(n, int(ranks));
  for (const Index left : {Index(100), 3 * rows + 7}) {
    const Layout layout = test::longnet_layout({window_pair({left, 0})}, true, n, 1);
    const KeptCounts counts(layout);
    EXPECT_EQ(counts.of(Interval{0, n}), Count(n) * (left + 1) - Count(left) * (left + 1) / 2);
    EXPECT_EQ(counts.of(partition[1000]), Count(rows) * (left + 1));
    const TrafficCounts traffic = traffic_counts(layout, partition, partition, CountedTraffic::rows);
    EXPECT_EQ(traffic.accuracy, Accuracy::exact);
    EXPECT_EQ(traffic.direct.received[0], 0);
    EXPECT_EQ(traffic.direct.received[1], std::min(left, rows));
    EXPECT_EQ(traffic.direct.received[60000], left);
    EXPECT_EQ(traffic.direct.messages[60000], core::ceil_div(left, rows));
    EXPECT_EQ(traffic.direct.sent[0], left);
    EXPECT_EQ(traffic.direct.sent[ranks - 1], 0);
  }
  // First rows: rank 0 sends them to every rank, and to rank 1 also the 100 rows before rank 1's own rows.
  const Layout first = test::longnet_layout({window_pair({100, 0, 4})}, true, n, 1);
  const TrafficCounts traffic = traffic_counts(first, partition, partition, CountedTraffic::rows);
  EXPECT_EQ(traffic.direct.received[60000], 100 + 4);
  EXPECT_EQ(traffic.direct.sent[0], 100 + 4 * (ranks - 1));
  EXPECT_EQ(KeptCounts(first).of(partition[60000]), Count(rows) * (100 + 1 + 4));
}

TEST(Windows, LimitsMayBeLargerThanAnySequence) {
  const Index huge = 1'000'000'000'000;
  const Layout layout = test::longnet_layout({window_pair({huge, huge}, 2), window_pair({3, 3}, huge)}, false, 40, 2);
  EXPECT_EQ(KeptCounts(layout).of(Interval{0, 40}), 2 * (2 * 20 * 20 + 40));
  const Partition partition = contiguous_partition(40, 4);
  for (int p = 0; p < 4; ++p) {
    Index received = 0;
    for (const Hop& hop : test::rotation_hops(layout, partition, p)) received += head_rows(hop.receive);
    EXPECT_EQ(received, 2 * 30) << "all other rows, of two heads";
  }
  EXPECT_EQ(traffic_counts(layout, partition, partition, CountedTraffic::rows).accuracy, Accuracy::estimate)
      << "a rank's 10 rows are fewer than the dilation";
}

TEST(Parts, InCommonAndLeftOver) {
  using Ranges = std::vector<StridedRange>;
  EXPECT_EQ(common({0, 6, 5}, {4, 2, 6}), (StridedRange{6, 6, 2})) << "of 0 6 12 18 24 those among 4 6 8 10 12 14";
  EXPECT_EQ(common({0, 6, 5}, {5, 2, 6}).count, 0) << "odd rows";
  EXPECT_EQ(common({0, 3, 5}, {0, 2, 9}).count, 0) << "0 6 12 are not neighbours in 0 3 6 9 12";
  EXPECT_EQ(common({4, 3, 1}, {0, 1, 5}), (StridedRange{4, 3, 1}));
  EXPECT_EQ(difference(Ranges{{0, 3, 5}, {1, 3, 5}}, {{6, 3, 1}, {1, 3, 5}}), (Ranges{{0, 3, 2}, {9, 3, 2}}));
  EXPECT_EQ(difference(Ranges{{0, 1, 10}}, {{8, 1, 4}, {2, 1, 3}}), (Ranges{{0, 1, 2}, {5, 1, 3}}));
  EXPECT_EQ(difference(Ranges{{4, 2, 3}}, {}), (Ranges{{4, 2, 3}}));
  EXPECT_EQ(difference(Ranges{{4, 2, 3}}, {{2, 2, 9}}), Ranges{});
}

}  // namespace
}  // namespace annulus::pattern
