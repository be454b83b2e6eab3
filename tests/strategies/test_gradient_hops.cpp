// How gradients travel, with all ranks in one process: every number that a rank adds for a row returns to the row's
// owner exactly once, no matter which parts travel together, overlap, or are taken out of others.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "annulus/pattern/documents_partition.hpp"
#include "annulus/strategies/packed_rows.hpp"
#include "support/random_layout.hpp"
#include "support/spelled_hops.hpp"

namespace annulus::strategies {
namespace {

using pattern::KeyRows;
using pattern::Layout;
using pattern::PackedRows;
using pattern::Partition;
using GradientHops = test::GradientHopList;
using Hops = test::HopList;

/// Sums of a block, one number for each row of one head.
using Sums = std::vector<double>;

Problem problem_of(const Layout& layout) {
  Problem problem;
  problem.shape = {1, layout.documents.back(), layout.heads, layout.kv_heads, 1};
  return problem;
}

std::vector<kernels::RowCopy> copies(const Problem& problem, const KeyRows& rows, const PackedRows& packed) {
  return collect(problem, {nullptr, rows.count(), rows}, packed);
}

/// Returns the message with the `packed` rows of a block. If `taken`, each copied number of the block becomes zero.
Sums leave(const Problem& problem, const PackedRows& block, Sums& sums, const PackedRows& packed, bool taken) {
  Sums message(std::size_t(pattern::head_rows(packed)));
  for (const kernels::RowCopy& copy : copies(problem, KeyRows::packed(block), packed)) {
    for (Index i = 0; i < copy.count; ++i) {
      double& sum = sums[std::size_t(copy.from + i * copy.stride)];
      message[std::size_t(copy.to + i)] = sum;
      if (taken) sum = 0;
    }
  }
  return message;
}

void arrive(const Problem& problem, const KeyRows& rows, Sums& sums, const PackedRows& packed, const Sums& message) {
  ASSERT_EQ(message.size(), std::size_t(pattern::head_rows(packed))) << "sender and receiver disagree";
  for (const kernels::RowCopy& copy : copies(problem, rows, packed)) {
    for (Index i = 0; i < copy.count; ++i) {
      sums[std::size_t(copy.from + i * copy.stride)] += message[std::size_t(copy.to + i)];
    }
  }
}

struct Plan {
  std::vector<Hops> hops;               // [P]
  std::vector<GradientHops> gradients;  // [P]
};

/// The sums that return to each rank if every rank p adds 2^p to every row that it reads.
std::vector<Sums> carry_home(const Layout& layout, const Partition& partition, const Plan& plan) {
  const Problem problem = problem_of(layout);
  const std::size_t ranks = partition.size();
  std::vector<Sums> back;
  for (const auto& rows : partition) back.emplace_back(std::size_t(rows.count() * layout.kv_heads));
  std::size_t hops = 0;
  for (const Hops& one : plan.hops) hops = std::max(hops, one.size());
  std::vector<Sums> blocks(ranks), received(ranks);
  for (std::size_t h = 0; h < hops; ++h) {
    for (std::size_t p = 0; p < ranks; ++p) {
      if (h >= plan.hops[p].size()) continue;
      const PackedRows& block = plan.hops[p][h].receive;
      blocks[p].assign(std::size_t(pattern::head_rows(block)), 0);
      const auto owner = std::size_t(plan.gradients[p][h].owner);
      const PackedRows read = pattern::rows_read(layout, partition[owner], partition[p]);
      const Sums ones(std::size_t(pattern::head_rows(read)), double(1 << p));
      arrive(problem, KeyRows::packed(block), blocks[p], read, ones);
      if (h > 0)
        arrive(problem, KeyRows::packed(block), blocks[p], plan.gradients[p][h - 1].receive_forward, received[p]);
    }
    for (std::size_t p = 0; p < ranks; ++p) {
      if (h >= plan.hops[p].size()) continue;
      const pattern::GradientHop& hop = plan.gradients[p][h];
      const PackedRows& block = plan.hops[p][h].receive;
      received[std::size_t(hop.next)] = leave(problem, block, blocks[p], hop.send_forward, true);
      const auto owner = std::size_t(hop.owner);
      if (hop.send_back.empty()) continue;
      EXPECT_EQ(plan.gradients[owner][h].reader_of_own_rows, int(p));
      arrive(problem, KeyRows::raw(partition[owner]), back[owner], plan.gradients[owner][h].receive_back,
             leave(problem, block, blocks[p], hop.send_back, false));
    }
  }
  return back;
}

/// The same sums, made with rows_read(): 2^p for each reader p that reached(distance, ranks) allows, once per part that
/// has the row.
std::vector<Sums> expected(const Layout& layout, const Partition& partition, bool reached(int distance, int ranks)) {
  const Problem problem = problem_of(layout);
  const int ranks = int(partition.size());
  std::vector<Sums> back;
  for (int owner = 0; owner < ranks; ++owner) {
    const pattern::StoredRows& rows = partition[std::size_t(owner)];
    Sums& sums = back.emplace_back(std::size_t(rows.count() * layout.kv_heads));
    for (int p = 0; p < ranks; ++p) {
      if (p == owner || !reached((p - owner + ranks) % ranks, ranks)) continue;
      const PackedRows read = pattern::rows_read(layout, rows, partition[std::size_t(p)]);
      arrive(problem, KeyRows::raw(rows), sums, read, Sums(std::size_t(pattern::head_rows(read)), double(1 << p)));
    }
  }
  return back;
}

Plan ring(const Layout& layout, const Partition& partition, int direction, int reach) {
  Plan plan;
  for (int p = 0; p < int(partition.size()); ++p) {
    const pattern::Hops hops(layout, partition, partition, pattern::From::neighbours, direction, reach);
    plan.hops.push_back(test::spelled(hops, p));
    plan.gradients.push_back(test::spelled_gradients(hops, p));
  }
  return plan;
}

Plan rotation(const Layout& layout, const Partition& partition) {
  Plan plan;
  const int ranks = int(partition.size());
  for (int p = 0; p < ranks; ++p) {
    const pattern::Hops hops(layout, partition, partition, pattern::From::owners, 1, ranks - 1);
    plan.hops.push_back(test::spelled(hops, p));
    plan.gradients.push_back(test::spelled_gradients(hops, p));
  }
  return plan;
}

/// (row, head) pairs that all ranks together receive: of K and V, and of gradients.
std::pair<Index, Index> rows_received(const Plan& plan) {
  Index keys = 0, gradients = 0;
  for (std::size_t p = 0; p < plan.hops.size(); ++p) {
    for (const pattern::Hop& hop : plan.hops[p]) keys += pattern::head_rows(hop.receive);
    for (const pattern::GradientHop& hop : plan.gradients[p]) {
      gradients += pattern::head_rows(hop.receive_forward) + pattern::head_rows(hop.receive_back);
    }
  }
  return {keys, gradients};
}

TEST(GradientHops, EverythingComesHomeOnce) {
  const std::uint64_t seed = 5;
  std::mt19937_64 random(seed);
  for (int i = 0; i < 300; ++i) {
    const test::RandomLayout drawn = test::draw_layout(random, 90);
    const int ranks = 2 + int(random() % 5);
    const Partition partitions[] = {pattern::contiguous_partition(drawn.n, ranks),
                                    pattern::zigzag_partition(drawn.layout.documents, ranks),
                                    pattern::block_cyclic_partition(drawn.n, ranks, 1 + Index(random() % 7)),
                                    pattern::documents_partition(drawn.layout, ranks)};
    for (const Partition& partition : partitions) {
      SCOPED_TRACE("seed " + std::to_string(seed) + " case " + std::to_string(i) + ": " + test::describe(drawn));
      const Layout& layout = drawn.layout;
      const auto all = [](int, int) { return true; };
      EXPECT_EQ(carry_home(layout, partition, ring(layout, partition, 1, ranks - 1)), expected(layout, partition, all));
      EXPECT_EQ(carry_home(layout, partition, rotation(layout, partition)), expected(layout, partition, all));
      EXPECT_EQ(carry_home(layout, partition, ring(layout, partition, 1, ranks / 2)),
                expected(layout, partition, [](int distance, int p) { return distance <= p / 2; }));
      EXPECT_EQ(carry_home(layout, partition, ring(layout, partition, -1, (ranks - 1) / 2)),
                expected(layout, partition, [](int distance, int p) { return p - distance <= (p - 1) / 2; }));
    }
  }
}

/// A sum from which one can see in which order ranks added to it.
double added(double sum, int rank) { return std::fmod(sum * 7 + rank + 1, 1e9 + 7); }

using Chains = std::map<std::pair<Index, Index>, double>;  // (row, K/V head) -> its sum

/// Calls `visit` for every (row, K/V head) of packed rows.
template <class Visit>
void for_each_row(const PackedRows& packed, Visit&& visit) {
  for (const pattern::OwnerInterval& owned : packed) {
    for (std::size_t kv = 0; kv < owned.heads.size(); ++kv) {
      for (const pattern::StridedRange& part : owned.heads[kv]) {
        for (Index i = 0; i < part.count; ++i) visit(std::pair{part.row(i), Index(kv)});
      }
    }
  }
}

/// Moves the rows of a message from `from`, which must have them, to `to`, which must not.
void move(const PackedRows& sent, const PackedRows& received, Chains& from, Chains& to) {
  EXPECT_EQ(sent, received) << "sender and receiver disagree";
  for_each_row(sent, [&](const auto& row) {
    const auto found = from.find(row);
    ASSERT_NE(found, from.end()) << "row " << row.first << " is not with the sender";
    ASSERT_TRUE(to.emplace(row, found->second).second) << "row " << row.first << " comes twice";
    from.erase(found);
  });
}

TEST(GradientHops, OrderedSumsVisitTheirReadersUpwardAndComeHome) {
  const std::uint64_t seed = 6;
  std::mt19937_64 random(seed);
  for (int i = 0; i < 300; ++i) {
    const test::RandomLayout drawn = test::draw_layout(random, 90);
    const int ranks = 1 + int(random() % 6);
    const Index slices = 1 + Index(random() % 3), slice = Index(random() % std::uint64_t(slices));
    SCOPED_TRACE("seed " + std::to_string(seed) + " case " + std::to_string(i) + ": " + test::describe(drawn));
    Layout layout = drawn.layout;
    const Index pair = Index(random() % layout.pattern.pairs.size());
    layout.pairs = {pair, pair + 1};
    const Partition partition = pattern::contiguous_partition(drawn.n, ranks);
    const Partition owners = pattern::nth_share_of_rows(partition, slices, slice);
    const auto count = std::size_t(ranks);
    std::vector<Chains> back(count), expected(count), here(count);
    std::vector<GradientHops> plan;
    for (int p = 0; p < ranks; ++p) {
      plan.push_back(test::ordered_gradients(layout, partition, owners, p));
      ASSERT_EQ(plan.back().size(), count);
      for (const core::Interval& rows : owners[std::size_t(p)].intervals()) {
        for (Index row = rows.begin; row < rows.end; ++row) {
          for (Index kv = 0; kv < layout.kv_heads; ++kv) back[std::size_t(p)][{row, kv}] = added(0, p);
        }
      }
      expected[std::size_t(p)] = back[std::size_t(p)];
      for (int d = 1; d < ranks; ++d) {
        const int reader = (p + d) % ranks;
        for_each_row(pattern::rows_read(layout, owners[std::size_t(p)], partition[std::size_t(reader)]),
                     [&](const auto& row) {
                       double& sum = expected[std::size_t(p)].at(row);
                       sum = added(sum, reader);
                     });
      }
    }
    for (int s = 0; s < ranks; ++s) {
      const auto at = std::size_t(s);
      std::vector<Chains> next(count);
      for (int p = 0; p < ranks; ++p) {
        const auto rank = std::size_t(p);
        const pattern::GradientHop& hop = plan[rank][at];
        const auto owner = std::size_t(hop.owner);
        EXPECT_EQ(hop.owner, (p - s + ranks) % ranks);
        EXPECT_EQ(plan[owner][at].reader_of_own_rows, p);
        EXPECT_EQ(plan[std::size_t(hop.next)][at].previous, p);
        if (s > 0) {
          for_each_row(pattern::rows_read(layout, owners[owner], partition[rank]), [&](const auto& row) {
            ASSERT_EQ(here[rank].count(row), 1u) << "the sum of row " << row.first << " is not where it is needed";
            here[rank][row] = added(here[rank][row], p);
          });
        }
        Chains& from = s == 0 ? back[rank] : here[rank];
        move(hop.send_forward, plan[std::size_t(hop.next)][at].receive_forward, from, next[std::size_t(hop.next)]);
        move(hop.send_back, plan[owner][at].receive_back, from, back[owner]);
        EXPECT_TRUE(s == 0 || from.empty()) << "sums are left behind";
      }
      here = std::move(next);
    }
    EXPECT_EQ(back, expected);
  }
}

TEST(GradientHops, OrderedSumsMakeOneHopMore) {
  const Index n = 4096;
  const int ranks = 4;
  const Partition contiguous = pattern::contiguous_partition(n, ranks);
  for (const bool causal : {false, true}) {
    const Layout dense = test::longnet_layout({{pattern::whole_document, 1}}, causal, n, 2);
    Index received = 0;
    for (int p = 0; p < ranks; ++p) {
      for (const pattern::GradientHop& hop : test::ordered_gradients(dense, contiguous, contiguous, p)) {
        received += pattern::head_rows(hop.receive_forward) + pattern::head_rows(hop.receive_back);
      }
    }
    EXPECT_EQ(received, 2 * (causal ? 6 + 3 : 12 + 4) * (n / ranks));
  }
}

TEST(GradientHops, MoveAsManyRowsAsKeysAndValues) {
  const Index n = 4096;
  const int ranks = 4;
  const Partition contiguous = pattern::contiguous_partition(n, ranks);
  for (const bool causal : {false, true}) {
    const Layout dense = test::longnet_layout({{pattern::whole_document, 1}}, causal, n, 2);
    const auto [ring_keys, ring_gradients] = rows_received(ring(dense, contiguous, 1, ranks - 1));
    const auto [direct_keys, direct_gradients] = rows_received(rotation(dense, contiguous));
    EXPECT_EQ(ring_gradients, ring_keys);
    EXPECT_EQ(direct_gradients, direct_keys);
    EXPECT_EQ(ring_keys, direct_keys);
    EXPECT_EQ(direct_keys, 2 * (causal ? 6 : 12) * (n / ranks));
  }
}

TEST(GradientHops, StartBehindTheFirstReader) {
  // Segments span two ranks: rank 1's rows pass through ranks 2 and 3, which do not read them, on their way to rank 0.
  const Index n = 64;
  const Layout pairs = test::longnet_layout({{32, 1}}, false, n, 1);
  const auto [keys, gradients] = rows_received(ring(pairs, pattern::contiguous_partition(n, 4), 1, 3));
  EXPECT_EQ(keys, 2 * 16 + 2 * 3 * 16);
  EXPECT_EQ(gradients, 4 * 16);
}

}  // namespace
}  // namespace annulus::strategies
