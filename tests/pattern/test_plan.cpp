// Plans of every rank, made in one process: what arrives is what was sent, all rows that are read arrive, and no more
// rows arrive than in the dense ring.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <tuple>
#include <type_traits>

#include "annulus/pattern/documents_partition.hpp"
#include "annulus/pattern/hops.hpp"
#include "support/coverage.hpp"
#include "support/spelled_hops.hpp"

namespace annulus::pattern {
namespace {

using test::draw_layout;
using test::HopList;
using test::RandomLayout;
using test::ring_hops;
using test::rotation_hops;

/// An exchange as strategies use it: the hops of a rank, one list for each direction.
struct Exchange {
  const char* name;
  std::function<std::vector<HopList>(const Layout&, const Partition&, int rank)> channels;
};
const std::vector<Exchange>& exchanges() {
  static const std::vector<Exchange> all{
      {"ring",
       [](const Layout& layout, const Partition& partition, int rank) {
         return std::vector<HopList>{ring_hops(layout, partition, rank, 1, int(partition.size()) - 1)};
       }},
      {"both ways",
       [](const Layout& layout, const Partition& partition, int rank) {
         const int ranks = int(partition.size());
         return std::vector<HopList>{ring_hops(layout, partition, rank, 1, ranks / 2),
                                     ring_hops(layout, partition, rank, -1, (ranks - 1) / 2)};
       }},
      {"rotation", [](const Layout& layout, const Partition& partition, int rank) {
         return std::vector<HopList>{rotation_hops(layout, partition, rank)};
       }}};
  return all;
}

std::vector<Partition> partitions(const RandomLayout& drawn, int ranks) {
  return {contiguous_partition(drawn.n, ranks), zigzag_partition(drawn.layout.documents, ranks),
          block_cyclic_partition(drawn.n, ranks, 3), documents_partition(drawn.layout, ranks)};
}

/// (row, head) pairs that arrive at a rank.
Index received(const std::vector<HopList>& channels) {
  Index count = 0;
  for (const HopList& hops : channels) {
    for (const Hop& hop : hops) count += head_rows(hop.receive);
  }
  return count;
}

/// Calls visit(drawn, exchange, partition, ranks) for many random settings.
void for_random_settings(
    std::uint64_t seed, const std::function<void(const RandomLayout&, const Exchange&, const Partition&, int)>& visit) {
  std::mt19937_64 random(seed);
  for (int round = 0; round < 120; ++round) {
    const RandomLayout drawn = draw_layout(random, 40);
    const int ranks = 1 + int(random() % 6);
    for (const Partition& partition : partitions(drawn, ranks)) {
      for (const Exchange& exchange : exchanges()) {
        SCOPED_TRACE(std::string(exchange.name) + " on " + std::to_string(ranks) + ": " + test::describe(drawn));
        visit(drawn, exchange, partition, ranks);
      }
    }
  }
}

TEST(Plans, BringEveryKeptTripleExactlyOnce) {
  for_random_settings(
      3, [](const RandomLayout& drawn, const Exchange& exchange, const Partition& partition, int ranks) {
        test::Triples covered;
        for (int p = 0; p < ranks; ++p) {
          const StoredRows& queries = partition[std::size_t(p)];
          const auto add = [&](const KeyRows& keys) {
            test::add_triples(work_lists(drawn.layout, queries, keys), drawn.layout, queries, keys, covered);
          };
          add(KeyRows::raw(queries));
          for (const HopList& hops : exchange.channels(drawn.layout, partition, p)) {
            for (const Hop& hop : hops) add(KeyRows::packed(hop.receive));
          }
        }
        EXPECT_EQ(covered, test::defined_triples(drawn));
      });
}

/// Whether `held` has every range of rows of `wanted`, each inside a single range of its own.
bool holds(const KeyRows& held, const PackedRows& wanted) {
  for (const OwnerInterval& owned : wanted) {
    bool found = false;
    for (std::size_t i = 0; i < held.owned().size(); ++i) {
      if (held.owned()[i].rows != owned.rows) continue;
      found = true;
      for (std::size_t kv = 0; kv < owned.heads.size(); ++kv) {
        for (const StridedRange& part : owned.heads[kv]) {
          if (held.find(i, Index(kv), part) == nullptr) return false;
        }
      }
    }
    if (!found) return false;
  }
  return true;
}

TEST(Plans, WhatIsSentIsHeldAndIsWhatThePeerExpects) {
  for_random_settings(4, [](const RandomLayout& drawn, const Exchange& exchange, const Partition& partition,
                            int ranks) {
    std::vector<std::vector<HopList>> all;
    for (int p = 0; p < ranks; ++p) all.push_back(exchange.channels(drawn.layout, partition, p));
    for (int p = 0; p < ranks; ++p) {
      for (std::size_t channel = 0; channel < all[std::size_t(p)].size(); ++channel) {
        const HopList& hops = all[std::size_t(p)][channel];
        for (std::size_t h = 0; h < hops.size(); ++h) {
          const HopList& theirs = all[std::size_t(hops[h].send_to)][channel];
          const PackedRows expected = h < theirs.size() ? theirs[h].receive : PackedRows{};
          EXPECT_EQ(hops[h].send, expected) << "rank " << p << " hop " << h + 1;
          if (h < theirs.size()) {
            EXPECT_EQ(theirs[h].receive_from, p);
          }
          const KeyRows source =
              hops[h].send_own ? KeyRows::raw(partition[std::size_t(p)]) : KeyRows::packed(hops[h - 1].receive);
          EXPECT_TRUE(holds(source, hops[h].send)) << "rank " << p << " passes on rows it does not hold, hop " << h + 1;
        }
      }
    }
  });
}

/// Compares the numbers that `hops` looks up, and every hop that it spells out, with the definition.
void expect_as_defined(const Hops& hops, const std::vector<HopList>& defined, int ranks) {
  for (int p = 0; p < ranks; ++p) {
    const HopList& list = defined[std::size_t(p)];
    ASSERT_LE(hops.count(p), int(list.size()));
    for (int h = 0; h < int(list.size()); ++h) {
      const Hop& hop = list[std::size_t(h)];
      EXPECT_EQ(hops.rows_received(p, h), head_rows(hop.receive)) << "rank " << p << " hop " << h + 1;
      EXPECT_EQ(hops.rows_sent(p, h), head_rows(hop.send)) << "rank " << p << " hop " << h + 1;
      EXPECT_EQ(hops.passes_on(p, h), !hop.send_own && hop.send == list[std::size_t(h - 1)].receive);
      EXPECT_TRUE(h < hops.count(p) || (hop.receive.empty() && hop.send.empty()));
      const Hop made = hops.hop(p, h);
      EXPECT_EQ(made.receive, hop.receive) << "rank " << p << " hop " << h + 1;
      EXPECT_EQ(made.send, hop.send) << "rank " << p << " hop " << h + 1;
      EXPECT_EQ(made.send_to, hop.send_to);
      EXPECT_EQ(made.receive_from, hop.receive_from);
      EXPECT_EQ(made.send_own, hop.send_own);
    }
  }
}

static_assert(!std::is_move_constructible_v<Hops>, "parts of Routes refer to each other");

/// Compares every exchange of every rank with the definition.
void expect_all_as_defined(const Layout& layout, const Partition& partition) {
  const int ranks = int(partition.size());
  for (const auto& [direction, reach] : {std::pair{1, ranks - 1}, {1, ranks / 2}, {-1, (ranks - 1) / 2}}) {
    const Hops ring(layout, partition, partition, From::neighbours, direction, reach);
    expect_as_defined(ring, test::defined_ring(layout, partition, direction, reach), ranks);
  }
  std::vector<HopList> straight(partition.size());
  for (int p = 0; p < ranks; ++p) {
    for (int d = 1; d < ranks; ++d) {
      const auto rank = [&](int at) { return core::wrap(at, ranks); };
      const auto read = [&](int owner, int reader) {
        return rows_read(layout, partition[std::size_t(rank(owner))], partition[std::size_t(rank(reader))]);
      };
      straight[std::size_t(p)].push_back({rank(p + d), rank(p - d), read(p, p + d), read(p - d, p), true});
    }
  }
  expect_as_defined({layout, partition, partition, From::owners, 1, ranks - 1}, straight, ranks);
}

/// Owners with many intervals, whose rows are counted but not listed (piece_counts.hpp).
TEST(Plans, OfManyDocumentsAreThoseOfTheDefinition) {
  std::mt19937_64 random(9);
  for (int round = 0; round < 60; ++round) {
    RandomLayout drawn = draw_layout(random, 300);
    Documents& documents = drawn.layout.documents = Documents{0};
    for (int d = 0; d < 20; ++d) documents.push_back(documents.back() + Index(random() % 40));
    const int ranks = 2 + int(random() % 7);
    SCOPED_TRACE(std::to_string(ranks) + " ranks: " + test::describe(drawn));
    expect_all_as_defined(drawn.layout, zigzag_partition(documents, ranks));
    expect_all_as_defined(drawn.layout, block_cyclic_partition(documents.back(), ranks, 3));
  }
}

/// Plans treat readers of the same rows together, and also owners that look alike. With up to 17 ranks both are
/// frequent.
TEST(Plans, OfManyRanksAreThoseOfTheDefinition) {
  std::mt19937_64 random(8);
  for (int round = 0; round < 60; ++round) {
    const RandomLayout drawn = draw_layout(random, round % 2 == 0 ? 60 : 400);
    const int ranks = 1 + int(random() % 17);
    for (const Partition& partition : partitions(drawn, ranks)) {
      SCOPED_TRACE(std::to_string(ranks) + " ranks: " + test::describe(drawn));
      expect_all_as_defined(drawn.layout, partition);
    }
  }
}

TEST(Plans, NeverCarryMoreThanTheDenseRing) {
  for_random_settings(5,
                      [](const RandomLayout& drawn, const Exchange& exchange, const Partition& partition, int ranks) {
                        for (int p = 0; p < ranks; ++p) {
                          const StoredRows& own = partition[std::size_t(p)];
                          EXPECT_LE(received(exchange.channels(drawn.layout, partition, p)),
                                    (drawn.n - own.count()) * drawn.layout.kv_heads);
                        }
                      });
}

TEST(Plans, SendNothingWhereSegmentsLieInsideRanks) {
  const Layout layout = test::longnet_layout({{16, 1}, {32, 4}}, false, 256, 8);
  for (const Exchange& exchange : exchanges()) {
    for (int p = 0; p < 4; ++p) {
      for (const HopList& hops : exchange.channels(layout, contiguous_partition(256, 4), p)) EXPECT_TRUE(hops.empty());
    }
  }
}

TEST(Plans, DenseCarriesEverythingAndCausalOnlyEarlierRows) {
  Layout layout = test::longnet_layout({{whole_document, 1}}, false, 64, 2);
  const Partition partition = contiguous_partition(64, 4);
  for (const Exchange& exchange : exchanges()) {
    for (int p = 0; p < 4; ++p) {
      layout.pattern.causal = false;
      EXPECT_EQ(received(exchange.channels(layout, partition, p)), 2 * 48) << exchange.name;
      layout.pattern.causal = true;
      const Index causal = received(exchange.channels(layout, partition, p));
      if (std::string(exchange.name) == "both ways") continue;  // it also receives rows that it forwards
      EXPECT_EQ(causal, 2 * 16 * p) << exchange.name << " rank " << p;
    }
  }
}

TEST(RingPlan, WorkedExample) {
  const Layout layout = test::longnet_layout({{8, 1}}, false, 16, 1);
  const Partition partition = contiguous_partition(16, 4);
  const auto hops = [&](int rank) { return ring_hops(layout, partition, rank, 1, 3); };
  ASSERT_EQ(hops(0).size(), 3u);
  EXPECT_EQ(hops(1)[0].receive, (PackedRows{{{0, 4}, {{{0, 1, 4}}}}})) << "rank 0's rows go one hop, to rank 1";
  EXPECT_TRUE(hops(2)[1].receive.empty());
  EXPECT_EQ(hops(0)[2].receive, (PackedRows{{{4, 8}, {{{4, 1, 4}}}}})) << "rank 1's rows come round by ranks 2 and 3";
}

/// Bytes that the busiest rank receives, divided by what a rank receives in the dense ring. The ratio depends neither
/// on the head size nor on the type.
double share_of_dense(const Layout& layout, int ranks, const Exchange& exchange) {
  const Index n = layout.documents.back();
  const Partition partition = contiguous_partition(n, ranks);
  Index most = 0;
  for (int p = 0; p < ranks; ++p) most = std::max(most, received(exchange.channels(layout, partition, p)));
  const Index dense = (ranks - 1) * (n / ranks) * layout.kv_heads;
  return double(most) / double(dense);
}

TEST(Plans, BytesOfTheProjectsTargets) {
  const Layout main = test::longnet_layout({{2048, 1}, {8192, 4}, {32768, 16}, {whole_document, 64}}, false, 65536, 8);
  EXPECT_LE(share_of_dense(main, 4, exchanges()[2]), 1.0 / 31) << "rotation";
  EXPECT_LE(share_of_dense(main, 4, exchanges()[0]), 1.0 / 20) << "ring";
  const Layout longnet =
      test::longnet_layout({{2048, 1}, {4096, 2}, {8192, 4}, {16384, 6}, {32768, 12}}, false, 131072, 8);
  EXPECT_LE(share_of_dense(longnet, 8, exchanges()[2]), 1.0 / 80) << "rotation";
}

TEST(Parts, NestedOnesAreDroppedAndDenseOnesBecomeTheSpan) {
  using Parts = std::vector<StridedRange>;
  EXPECT_EQ(reduce({{0, 4, 4}, {0, 2, 7}}), (Parts{{0, 2, 7}}));
  EXPECT_EQ(reduce({{0, 2, 7}, {1, 2, 7}}), (Parts{{0, 1, 14}}));
  EXPECT_EQ(reduce({{0, 4, 3}, {6, 4, 2}}), (Parts{{0, 4, 3}, {6, 4, 2}})) << "5 rows of a span of 11";
  EXPECT_EQ(reduce({{0, 4, 4}, {2, 8, 1}}), (Parts{{0, 4, 4}, {2, 8, 1}}));
  EXPECT_EQ(reduce({{5, 3, 0}}), Parts{});
  EXPECT_EQ(reduce({{8, 100, 1}, {0, 4, 4}}), (Parts{{0, 4, 4}})) << "a single row has no stride";
}

/// The two rules as strided_ranges.hpp states them: every range is compared with every other one.
std::vector<StridedRange> reduced(std::vector<StridedRange> ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const StridedRange& a, const StridedRange& b) {
    return std::tuple(-a.count, a.first, a.stride) < std::tuple(-b.count, b.first, b.stride);
  });
  std::vector<StridedRange> kept;
  Interval span{ranges.front().first, 0};
  for (const StridedRange& range : ranges) {
    span = {std::min(span.begin, range.first), std::max(span.end, range.end())};
    if (std::none_of(kept.begin(), kept.end(), [&](const StridedRange& outer) { return contains(outer, range); }))
      kept.push_back(range);
  }
  if (kept.size() == 1 && kept[0].count == 1) kept[0].stride = 1;
  if (kept.size() > 1 && row_count(kept) >= span.size()) return {{span.begin, 1, span.size()}};
  std::sort(kept.begin(), kept.end(), [](const StridedRange& a, const StridedRange& b) {
    return std::tuple(a.first, a.stride) < std::tuple(b.first, b.stride);
  });
  return kept;
}

TEST(Parts, OfManyStridesAreReducedByTheTwoRules) {
  std::mt19937_64 random(12);
  const auto draw = [&](Index low, Index high) { return std::uniform_int_distribution<Index>(low, high)(random); };
  std::size_t smaller = 0, several = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<StridedRange> ranges(std::size_t(draw(1, 12)));
    for (StridedRange& range : ranges)
      range = {draw(0, 40), std::array<Index, 6>{1, 2, 3, 4, 6, 12}[std::size_t(draw(0, 5))], draw(1, 6)};
    const std::vector<StridedRange> expected = reduced(ranges);
    EXPECT_EQ(reduce(ranges), expected);
    smaller += expected.size() < ranges.size();
    several += expected.size() > 1;
  }
  EXPECT_GT(smaller, 1000u);
  EXPECT_GT(several, 1000u);
}

TEST(RowsRead, AreThePiecesThatTheConsumerSees) {
  // Offset 0 of (all, 4), one head: rows 0 4 8 12 16 20; of rank [4, 12) the rows 4 and 8 are read.
  const Layout layout = test::longnet_layout({{whole_document, 4}}, false, 24, 1);
  const auto read = [&](Interval owner, Interval consumer) {
    return rows_read(layout, StoredRows({owner}), StoredRows({consumer}));
  };
  EXPECT_EQ(read({4, 12}, {12, 24}), (PackedRows{{{4, 12}, {{{4, 4, 2}}}}}));
  EXPECT_EQ(read({12, 24}, {0, 4}), (PackedRows{{{12, 24}, {{{12, 4, 3}}}}}));
  EXPECT_TRUE(read({4, 12}, {13, 16}).empty()) << "the consumer has no row of the comb";
  EXPECT_TRUE(read({5, 8}, {12, 24}).empty()) << "the owner has no row of the comb";
}

}  // namespace
}  // namespace annulus::pattern
