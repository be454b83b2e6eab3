#include "annulus/pattern/plan.hpp"

#include <algorithm>

namespace annulus::pattern {
namespace {

using core::wrap;

/// Some row of the comb behind `after` is the consumer's.
bool holds_any(const StoredRows& consumer, const Comb& comb, Index after) {
  return std::any_of(consumer.intervals().begin(), consumer.intervals().end(), [&](const Interval& rows) {
    return !indices_within(comb, {std::max(rows.begin, after), rows.end}).empty();
  });
}

/// Appends the pieces of one segment of pair `pair` that lie in the owner's interval and that the consumer reads.
void append_read(const Layout& layout, Index pair, Interval segment, const StoredRows& consumer, Stretch& stretch) {
  const Index after = layout.pattern.causal ? stretch.rows.end : 0;
  for (const UsedOffset& used : used_offsets(layout.pattern, pair, layout.heads)) {
    const Comb comb = comb_of(segment, layout.pattern.pairs[std::size_t(pair)].dilation, used.offset);
    const Interval t = indices_within(comb, stretch.rows);
    if (t.empty() || !holds_any(consumer, comb, after)) continue;
    for_each_key_head(layout, used.heads, [&](Index kv, const HeadSet&) {
      stretch.heads[std::size_t(kv)].push_back({comb.row(t.begin), comb.stride, t.size()});
    });
  }
}

bool is_empty(const Stretch& stretch) {
  return std::all_of(stretch.heads.begin(), stretch.heads.end(), [](const auto& parts) { return parts.empty(); });
}

/// Hops up to the last one at which anything moves on any rank.
void drop_idle_end(Hops& hops, const std::vector<bool>& any) {
  std::size_t used = 0;
  for (std::size_t d = 0; d < hops.size(); ++d) used = any[d] ? d + 1 : used;
  hops.resize(used);
}

}  // namespace

Cargo join(Cargo a, const Cargo& b) {
  for (const Stretch& stretch : b) {
    const auto same = std::find_if(a.begin(), a.end(), [&](const Stretch& s) { return s.rows == stretch.rows; });
    if (same == a.end()) {
      a.push_back(stretch);
      continue;
    }
    for (std::size_t kv = 0; kv < stretch.heads.size(); ++kv) {
      std::vector<Part>& parts = same->heads[kv];
      parts.insert(parts.end(), stretch.heads[kv].begin(), stretch.heads[kv].end());
      parts = reduce(std::move(parts));
    }
  }
  std::sort(a.begin(), a.end(), [](const Stretch& x, const Stretch& y) { return x.rows.begin < y.rows.begin; });
  return a;
}

Cargo pieces_read(const Layout& layout, const StoredRows& owner, const StoredRows& consumer) {
  Cargo cargo;
  for (const Interval& rows : owner.intervals()) {
    Stretch stretch{rows, std::vector<std::vector<Part>>(std::size_t(layout.key_heads().size()))};
    for (Index i = layout.used_pairs().begin; i < layout.used_pairs().end; ++i) {
      const Pair& pair = layout.pattern.pairs[std::size_t(i)];
      const Interval first = segment_of(pair, layout.documents, rows.begin);
      const Interval last = segment_of(pair, layout.documents, rows.end - 1);
      if (first.begin < rows.begin || first.end > rows.end) append_read(layout, i, first, consumer, stretch);
      if (last != first && last.end > rows.end) append_read(layout, i, last, consumer, stretch);
    }
    if (!is_empty(stretch)) cargo.push_back(std::move(stretch));
  }
  return cargo;
}

Cargo rows_read(const Layout& layout, const StoredRows& owner, const StoredRows& consumer) {
  Cargo cargo = pieces_read(layout, owner, consumer);
  for (Stretch& stretch : cargo) {
    for (std::vector<Part>& parts : stretch.heads) parts = reduce(std::move(parts));
  }
  return cargo;
}

std::vector<Cargo> rows_carried(const Layout& layout, const Partition& partition, int owner, int direction, int reach) {
  // From the far end back: a nearer rank passes on all that a farther one reads.
  const auto rows = [&](int p) -> const StoredRows& { return partition[std::size_t(p)]; };
  std::vector<Cargo> cargos(std::size_t(std::max(reach, 0)));
  for (int d = reach; d >= 1; --d) {
    const auto at = std::size_t(d - 1);
    const int consumer = wrap(owner + d * direction, int(partition.size()));
    cargos[at] = join(rows_read(layout, rows(owner), rows(consumer)), d < reach ? cargos[at + 1] : Cargo{});
  }
  return cargos;
}

Hops ring_hops(const Layout& layout, const Partition& partition, int rank, int direction, int reach) {
  const int ranks = int(partition.size());
  std::vector<bool> any(std::size_t(std::max(reach, 0)));
  Hops hops(any.size());
  for (int owner = 0; owner < ranks; ++owner) {
    const std::vector<Cargo> cargos = rows_carried(layout, partition, owner, direction, reach);
    const int distance = wrap((rank - owner) * direction, ranks);  // of this rank from the owner
    for (int d = 1; d <= reach; ++d) {
      const auto at = std::size_t(d - 1);
      any[at] = any[at] || !cargos[at].empty();
      if (distance == d) hops[at].receive = cargos[at];
      if (distance == d - 1) hops[at].send = cargos[at];
    }
  }
  for (std::size_t at = 0; at < hops.size(); ++at) {
    hops[at].send_to = wrap(rank + direction, ranks);
    hops[at].receive_from = wrap(rank - direction, ranks);
    hops[at].send_own = at == 0;
  }
  drop_idle_end(hops, any);
  return hops;
}

Hops rotation_hops(const Layout& layout, const Partition& partition, int rank) {
  const int ranks = int(partition.size());
  const auto rows = [&](int p) -> const StoredRows& { return partition[std::size_t(p)]; };
  Hops hops;
  std::vector<bool> any;
  for (int d = 1; d < ranks; ++d) {
    const int to = wrap(rank + d, ranks), from = wrap(rank - d, ranks);
    hops.push_back(
        {to, from, rows_read(layout, rows(rank), rows(to)), rows_read(layout, rows(from), rows(rank)), true});
    any.push_back(!hops.back().send.empty() || !hops.back().receive.empty());
  }
  drop_idle_end(hops, any);
  return hops;
}

}  // namespace annulus::pattern
