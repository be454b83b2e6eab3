// The order in which a query row meets its keys. A rank gets blocks of keys from the ranks before it, nearest first,
// then from the last rank downwards. So, however a sequence is cut into intervals, every row meets its keys in
// descending order: from itself to the first row, then from the last row down. Floating-point sums keep their bits only
// because of this.
#include <gtest/gtest.h>

#include <map>

#include "support/coverage.hpp"
#include "support/spelled_hops.hpp"

namespace annulus::pattern {
namespace {

using core::Band;
/// (pair, query row, head) -> key rows, one by one.
using KeyOrder = std::map<std::tuple<Index, Index, Index>, std::vector<Index>>;

/// Appends the keys of one kernel call, for each item from the last key to the first: the kernel's order.
void append_call(const Layout& layout, const StoredRows& queries, const KeyRows& keys, Band part, KeyOrder& order) {
  const Index pair = layout.pairs.begin;  // the only one
  for (const core::WorkList& list : work_lists(layout, queries, keys, part)) {
    for (const core::WorkItem& item : list.items) {
      for (Index a = 0; a < item.query.runs; ++a) {
        const core::Run& q = list.runs[std::size_t(item.query.first_run + a)];
        for (Index i = 0; i < q.count * item.head_count; ++i) {
          const Index row = q.row + i / item.head_count * q.stride, t = q.t + i / item.head_count;
          const Index head = item.head_first + i % item.head_count * item.head_stride;
          std::vector<Index>& met = order[{pair, test::global_row(queries, row), head}];
          for (Index b = item.key.runs; b-- > 0;) {
            const core::Run& k = list.runs[std::size_t(item.key.first_run + b)];
            for (Index j = k.count; j-- > 0;) {
              const Index apart = t - (k.t + j);
              if (apart > item.band.left || -apart > item.band.right) continue;
              met.push_back(test::global_key(keys, item.kv_head, k.row + j * k.stride));
            }
          }
        }
      }
    }
  }
}

/// For each pair: own rows up to the query, then the rows that hops bring, then own rows after the query.
KeyOrder order_on(const Layout& whole, const Partition& partition, bool ring) {
  KeyOrder order;
  for (Index pair = 0; pair < Index(whole.pattern.pairs.size()); ++pair) {
    Layout layout = whole;
    layout.pairs = {pair, pair + 1};
    for (int p = 0; p < int(partition.size()); ++p) {
      const StoredRows& rows = partition[std::size_t(p)];
      append_call(layout, rows, KeyRows::raw(rows), Band::upto, order);
      const test::HopList hops = ring ? test::ring_hops(layout, partition, p, 1, int(partition.size()) - 1)
                                      : test::rotation_hops(layout, partition, p);
      for (const Hop& hop : hops) append_call(layout, rows, KeyRows::packed(hop.receive), Band::all, order);
      append_call(layout, rows, KeyRows::raw(rows), Band::after, order);
    }
  }
  return order;
}

/// n rows cut at random places; some ranks may get none.
Partition random_cuts(std::mt19937_64& random, Index n, int ranks) {
  std::vector<Index> cuts{0, n};
  for (int p = 1; p < ranks; ++p) cuts.push_back(Index(random() % std::uint64_t(n + 1)));
  std::sort(cuts.begin(), cuts.end());
  Partition partition;
  for (std::size_t p = 0; p + 1 < cuts.size(); ++p)
    partition.emplace_back(std::vector<Interval>{{cuts[p], cuts[p + 1]}});
  return partition;
}

TEST(Order, OfKeysDoesNotDependOnTheCuts) {
  const std::uint64_t seed = 31;
  std::mt19937_64 random(seed);
  for (int round = 0; round < 150; ++round) {
    const test::RandomLayout drawn = test::draw_layout(random, 40);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + test::describe(drawn));
    const KeyOrder alone = order_on(drawn.layout, contiguous_partition(drawn.n, 1), false);
    const int ranks = 2 + int(random() % 5);
    for (const Partition& partition : {contiguous_partition(drawn.n, ranks), random_cuts(random, drawn.n, ranks)}) {
      EXPECT_EQ(order_on(drawn.layout, partition, true), alone) << "ring, " << ranks << " ranks";
      EXPECT_EQ(order_on(drawn.layout, partition, false), alone) << "rotation, " << ranks << " ranks";
    }
    for (const auto& [place, met] : alone) {
      std::vector<Index> canonical = met;
      std::sort(canonical.begin(), canonical.end(),
                [x = std::get<1>(place)](Index a, Index b) { return std::pair(a > x, -a) < std::pair(b > x, -b); });
      EXPECT_EQ(met, canonical);
    }
  }
}

TEST(Order, WorkedExample) {
  // 12 rows on 3 ranks: what row 5 sees, one head.
  const Layout layout = test::longnet_layout({{}}, false, 12, 1);
  const KeyOrder order = order_on(layout, contiguous_partition(12, 3), false);
  EXPECT_EQ(order.at({0, 5, 0}), (std::vector<Index>{5, 4, 3, 2, 1, 0, 11, 10, 9, 8, 7, 6}));
}

}  // namespace
}  // namespace annulus::pattern
