#include "annulus/pattern/gradient_hops.hpp"

#include <algorithm>

namespace annulus::pattern {
namespace {

using core::wrap;

const Stretch* stretch_of(const Cargo& cargo, const Interval& rows) {
  const auto same =
      std::partition_point(cargo.begin(), cargo.end(), [&](const Stretch& s) { return s.rows.begin < rows.begin; });
  return same == cargo.end() || same->rows != rows ? nullptr : &*same;
}

/// The parts of `cargo` for which keep(part, parts of the same stretch and head in `other`) holds.
template <class Keep>
Cargo filtered(Cargo cargo, const Cargo& other, Keep&& keep) {
  const std::vector<Part> none;
  for (Stretch& stretch : cargo) {
    const Stretch* same = stretch_of(other, stretch.rows);
    for (std::size_t kv = 0; kv < stretch.heads.size(); ++kv) {
      const std::vector<Part>& parts = same != nullptr ? same->heads[kv] : none;
      std::erase_if(stretch.heads[kv], [&](const Part& part) { return !keep(part, parts); });
    }
  }
  std::erase_if(cargo, is_empty);
  return cargo;
}

/// What has anything in it when `read` has been read.
Cargo touched(const Cargo& cargo, const Cargo& read) {
  return filtered(cargo, read, [](const Part&, const std::vector<Part>& parts) { return !parts.empty(); });
}

/// Parts of `cargo` that are not parts of `next`.
Cargo without(const Cargo& cargo, const Cargo& next) {
  return filtered(cargo, next, [](const Part& part, const std::vector<Part>& parts) {
    return std::find(parts.begin(), parts.end(), part) == parts.end();
  });
}

}  // namespace

Cargo onward_sums(const Cargo& next, const Cargo& read) { return touched(next, read); }
Cargo home_sums(const Cargo& carried, const Cargo& next, const Cargo& read) {
  return touched(without(carried, next), read);
}

namespace {

/// Both ways of one owner's gradients, from the rank at distance d at element d - 1.
struct Ways {
  std::vector<Cargo> onward, home;
};

/// What the rank at `distance` takes part in: of the owner's own way all that comes home, of others' what arrives, goes
/// onward and goes home there. The rest stays empty.
Ways ways_of(const Layout& layout, const Partition& partition, int owner, int direction, int reach, int distance) {
  const std::vector<Cargo> carried = rows_carried(layout, partition, owner, direction, reach);
  Ways ways;
  Cargo read;  // by ranks up to distance d
  for (int d = 1; d <= reach; ++d) {
    const auto at = std::size_t(d - 1);
    const int consumer = wrap(owner + d * direction, int(partition.size()));
    read = join(std::move(read), rows_read(layout, partition[std::size_t(owner)], partition[std::size_t(consumer)]));
    const Cargo none, &next = d < reach ? carried[at + 1] : none;
    const bool near = distance == d || distance == d + 1;
    ways.onward.push_back(near ? onward_sums(next, read) : Cargo{});
    ways.home.push_back(distance == 0 || distance == d ? home_sums(carried[at], next, read) : Cargo{});
  }
  return ways;
}

/// Global rows at which the ranks' rows begin, and the end of the last one's; they follow one another.
std::vector<Index> row_begins(const Partition& contiguous) {
  std::vector<Index> begins{0};
  for (const StoredRows& rows : contiguous) begins.push_back(begins.back() + rows.count());
  return begins;
}

/// Pieces of an owner's rows that ranks at distance d, d + 1, ... upward read; none for d = P. These ranks
/// hold at most two intervals, and a piece is read where any of their rows sees it: one question for all of them.
/// Worked example: P = 4, 3 rows each: those at distance 2 and 3 of rank 1 are ranks 3 and 0, with [0, 3) and [9, 12).
Cargo pieces_carried(const Layout& layout, const std::vector<Index>& begins, const Partition& owners, int owner,
                     int d) {
  const int ranks = int(owners.size()), first = owner + d;
  if (d == ranks) return {};
  const auto begin = [&](int rank) { return begins[std::size_t(rank)]; };
  const StoredRows readers(first < ranks ? std::vector<Interval>{{0, begin(owner)}, {begin(first), begin(ranks)}}
                                         : std::vector<Interval>{{begin(first - ranks), begin(owner)}});
  Cargo carried = pieces_read(layout, owners[std::size_t(owner)], readers);
  for (Stretch& stretch : carried) {
    for (std::vector<Part>& parts : stretch.heads) {
      std::sort(parts.begin(), parts.end(), [](const Part& x, const Part& y) { return x.first < y.first; });
    }
  }
  return carried;
}

}  // namespace

GradientHops direct_gradients(const Hops& hops, int rank, int ranks) {
  GradientHops gradients;
  for (const Hop& hop : hops) {
    gradients.push_back(
        {wrap(rank + 1, ranks), hop.receive_from, wrap(rank - 1, ranks), hop.send_to, {}, hop.receive, {}, hop.send});
  }
  return gradients;
}

GradientHops ring_gradients(const Layout& layout, const Partition& partition, int rank, int direction, int reach) {
  const int ranks = int(partition.size());
  GradientHops gradients(std::size_t(std::max(reach, 0)));
  for (int d = 1; d <= reach; ++d) {
    GradientHop& hop = gradients[std::size_t(d - 1)];
    hop.next = wrap(rank + direction, ranks);
    hop.previous = wrap(rank - direction, ranks);
    hop.owner = wrap(rank - d * direction, ranks);
    hop.reader = wrap(rank + d * direction, ranks);
  }
  for (int owner = 0; owner < ranks; ++owner) {
    const int distance = wrap((rank - owner) * direction, ranks);  // of this rank from the owner
    Ways ways = ways_of(layout, partition, owner, direction, reach, distance);
    if (distance == 0) {
      for (std::size_t at = 0; at < gradients.size(); ++at) gradients[at].returned = std::move(ways.home[at]);
      continue;
    }
    if (distance <= reach) {
      gradients[std::size_t(distance - 1)].onward = std::move(ways.onward[std::size_t(distance - 1)]);
      gradients[std::size_t(distance - 1)].home = std::move(ways.home[std::size_t(distance - 1)]);
    }
    if (distance >= 2 && distance <= reach) {
      gradients[std::size_t(distance - 2)].arriving = std::move(ways.onward[std::size_t(distance - 2)]);
    }
  }
  return gradients;
}

GradientHops ordered_gradients(const Layout& layout, const Partition& readers, const Partition& owners, int rank) {
  const int ranks = int(readers.size());
  const std::vector<Index> begins = row_begins(readers);
  const auto carried = [&](int owner, int d) { return pieces_carried(layout, begins, owners, owner, d); };
  GradientHops hops;
  for (int s = 0; s < ranks; ++s) {
    GradientHop& hop = hops.emplace_back();
    hop.next = wrap(rank + 1, ranks);
    hop.previous = wrap(rank - 1, ranks);
    hop.owner = wrap(rank - s, ranks);
    hop.reader = wrap(rank + s, ranks);
    hop.onward = carried(hop.owner, s + 1);
    if (s > 0) hop.home = without(carried(hop.owner, s), hop.onward);
    if (s > 0) hop.returned = without(carried(rank, s), carried(rank, s + 1));
    if (s + 1 < ranks) hop.arriving = carried(wrap(rank - s - 1, ranks), s + 1);
  }
  return hops;
}

std::vector<Index> ordered_home_rows(const Layout& layout, const Partition& partition) {
  const std::vector<Index> begins = row_begins(partition);
  std::vector<Index> rows;
  for (int p = 0; p < int(partition.size()); ++p) {
    rows.push_back(head_rows(pieces_carried(layout, begins, partition, p, 1)));
  }
  return rows;
}

}  // namespace annulus::pattern
