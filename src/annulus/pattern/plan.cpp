#include "annulus/pattern/plan.hpp"

#include <algorithm>

namespace annulus::pattern {
namespace {

/// The rank's rows as one interval; contiguous partitions only, ranks without rows give an empty one.
Interval rows_of(const Partition& partition, int rank) {
  const StoredRows& rows = partition[std::size_t(rank)];
  return rows.count() > 0 ? rows.intervals().front() : Interval{};
}

Interval join(Interval a, Interval b) {
  if (a.empty()) return b;
  if (b.empty()) return a;
  return {std::min(a.begin, b.begin), std::max(a.end, b.end)};
}

/// carried[owner][d]: rows of `owner` that ranks at ring distance d or more read; d = 0 ... P.
using Carried = std::vector<std::vector<Interval>>;

Carried carried_rows(const Layout& layout, const Partition& partition) {
  const int ranks = int(partition.size());
  Carried carried(std::size_t(ranks), std::vector<Interval>(std::size_t(ranks) + 1));
  for (int owner = 0; owner < ranks; ++owner) {
    auto& rows = carried[std::size_t(owner)];
    for (int d = ranks - 1; d >= 1; --d) {
      const Interval read = rows_read(layout, rows_of(partition, owner), rows_of(partition, (owner + d) % ranks));
      rows[std::size_t(d)] = join(rows[std::size_t(d) + 1], read);
    }
  }
  return carried;
}

}  // namespace

Interval rows_read(const Layout& layout, Interval owner, Interval consumer) {
  const bool owner_first = owner.begin < consumer.begin;
  if (owner.empty() || consumer.empty() || (layout.pattern.causal && !owner_first)) return {};
  Interval read;
  for (std::size_t i = 0; i < layout.pattern.pairs.size(); ++i) {
    // A segment that holds rows of both also holds every row between them: it is the one of the consumer's nearest row.
    const Pair& pair = layout.pattern.pairs[i];
    const Interval segment = segment_of(pair, layout.documents, owner_first ? consumer.begin : consumer.end - 1);
    if (core::intersect(segment, owner).empty()) continue;
    for (const UsedOffset& used : used_offsets(layout.pattern, Index(i), layout.heads)) {
      const Comb comb = comb_of(segment, pair.dilation, used.offset);
      const Interval t = indices_within(comb, owner);
      if (t.empty() || indices_within(comb, consumer).empty()) continue;
      read = join(read, {comb.row(t.begin), comb.row(t.end - 1) + 1});
    }
  }
  return read;
}

std::vector<Hop> ring_hops(const Layout& layout, const Partition& partition, int rank) {
  const int ranks = int(partition.size());
  const Carried carried = carried_rows(layout, partition);
  const auto rank_at = [&](int p) { return ((p % ranks) + ranks) % ranks; };
  std::vector<Hop> hops;
  std::size_t used = 0;
  for (int d = 1; d < ranks; ++d) {
    const auto at = std::size_t(d);
    hops.push_back({.send_to = rank_at(rank + 1),
                    .receive_from = rank_at(rank - 1),
                    .send = carried[std::size_t(rank_at(rank - d + 1))][at],
                    .receive = carried[std::size_t(rank_at(rank - d))][at],
                    .send_own = d == 1});
    const bool any = std::any_of(carried.begin(), carried.end(), [&](const auto& rows) { return !rows[at].empty(); });
    if (any) used = at;
  }
  hops.resize(used);
  return hops;
}

}  // namespace annulus::pattern
