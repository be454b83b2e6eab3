#include "annulus/pattern/gradient_hops.hpp"

#include <algorithm>

namespace annulus::pattern {
namespace {

int wrap(int rank, int ranks) { return ((rank % ranks) + ranks) % ranks; }

const Stretch* stretch_of(const Cargo& cargo, const Interval& rows) {
  const auto same = std::find_if(cargo.begin(), cargo.end(), [&](const Stretch& s) { return s.rows == rows; });
  return same == cargo.end() ? nullptr : &*same;
}

/// The parts of `cargo` for which keep(part, parts of the same stretch and head in `other`) holds.
template <class Keep>
Cargo filtered(Cargo cargo, const Cargo& other, Keep&& keep) {
  for (Stretch& stretch : cargo) {
    const Stretch* same = stretch_of(other, stretch.rows);
    for (std::size_t kv = 0; kv < stretch.heads.size(); ++kv) {
      const std::vector<Part> parts = same != nullptr ? same->heads[kv] : std::vector<Part>{};
      std::erase_if(stretch.heads[kv], [&](const Part& part) { return !keep(part, parts); });
    }
  }
  std::erase_if(cargo, [](const Stretch& stretch) { return head_rows({stretch}) == 0; });
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

Ways ways_of(const Layout& layout, const Partition& partition, int owner, int direction, int reach) {
  const std::vector<Cargo> carried = rows_carried(layout, partition, owner, direction, reach);
  Ways ways;
  Cargo read;  // by ranks up to distance d
  for (int d = 1; d <= reach; ++d) {
    const auto at = std::size_t(d - 1);
    const int consumer = wrap(owner + d * direction, int(partition.size()));
    read = join(read, rows_read(layout, partition[std::size_t(owner)], partition[std::size_t(consumer)]));
    const Cargo next = d < reach ? carried[at + 1] : Cargo{};
    ways.onward.push_back(onward_sums(next, read));
    ways.home.push_back(home_sums(carried[at], next, read));
  }
  return ways;
}

/// All parts of both, each once; ascending, as reduced parts are.
std::vector<Part> united(std::vector<Part> a, const std::vector<Part>& b) {
  for (const Part& part : b) {
    if (std::find(a.begin(), a.end(), part) == a.end()) a.push_back(part);
  }
  std::sort(a.begin(), a.end(), [](const Part& x, const Part& y) { return x.first < y.first; });
  return a;
}

/// Pieces of an owner's rows that ranks at distance d, d + 1, ... upward read, at element d; none at elements 0 and P.
std::vector<Cargo> pieces_carried(const Layout& layout, const Partition& readers, const Partition& owners, int owner) {
  const int ranks = int(readers.size());
  std::vector<Cargo> carried(std::size_t(ranks) + 1);
  for (int d = ranks - 1; d >= 1; --d) {
    const StoredRows& reader = readers[std::size_t(wrap(owner + d, ranks))];
    Cargo& here = carried[std::size_t(d)];
    here = carried[std::size_t(d) + 1];
    for (const Stretch& read : pieces_read(layout, owners[std::size_t(owner)], reader)) {
      auto same = std::find_if(here.begin(), here.end(), [&](const Stretch& s) { return s.rows == read.rows; });
      if (same == here.end()) {
        same = here.insert(here.end(), {read.rows, std::vector<std::vector<Part>>(read.heads.size())});
      }
      for (std::size_t kv = 0; kv < read.heads.size(); ++kv) {
        same->heads[kv] = united(std::move(same->heads[kv]), read.heads[kv]);
      }
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
    Ways ways = ways_of(layout, partition, owner, direction, reach);
    const int distance = wrap((rank - owner) * direction, ranks);  // of this rank from the owner
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
  const std::vector<Cargo> own = pieces_carried(layout, readers, owners, rank);
  std::vector<Cargo> carried = own;  // of the owner of this step
  GradientHops hops;
  for (int s = 0; s < ranks; ++s) {
    const auto at = std::size_t(s);
    GradientHop& hop = hops.emplace_back();
    hop.next = wrap(rank + 1, ranks);
    hop.previous = wrap(rank - 1, ranks);
    hop.owner = wrap(rank - s, ranks);
    hop.reader = wrap(rank + s, ranks);
    hop.onward = carried[at + 1];
    if (s > 0) hop.home = without(carried[at], carried[at + 1]);
    if (s > 0) hop.returned = without(own[at], own[at + 1]);
    if (s + 1 < ranks) carried = pieces_carried(layout, readers, owners, wrap(rank - s - 1, ranks));
    if (s + 1 < ranks) hop.arriving = carried[at + 1];
  }
  return hops;
}

}  // namespace annulus::pattern
