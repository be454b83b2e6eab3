// A rank's hops as a list; and the hops of all ranks by the definition, which follows each owner's rows from rank to
// rank in the ring.
#pragma once

#include <algorithm>
#include <vector>

#include "annulus/pattern/hops.hpp"

namespace annulus::test {

using pattern::Hop;
using pattern::PackedRows;
using HopList = std::vector<Hop>;
using GradientHopList = std::vector<pattern::GradientHop>;

inline HopList spelled(const pattern::Hops& hops, int rank) {
  HopList list;
  for (int h = 0; h < hops.count(rank); ++h) list.push_back(hops.hop(rank, h));
  return list;
}
inline GradientHopList spelled_gradients(const pattern::Hops& hops, int rank) {
  GradientHopList list;
  for (int h = 0; h < hops.count(rank); ++h) list.push_back(hops.gradients(rank, h));
  return list;
}
inline HopList ring_hops(const pattern::Layout& layout, const pattern::Partition& partition, int rank, int direction,
                         int reach) {
  return spelled({layout, partition, partition, pattern::From::neighbours, direction, reach}, rank);
}
inline HopList rotation_hops(const pattern::Layout& layout, const pattern::Partition& partition, int rank) {
  return spelled({layout, partition, partition, pattern::From::owners, 1, int(partition.size()) - 1}, rank);
}
inline GradientHopList ring_gradients(const pattern::Layout& layout, const pattern::Partition& partition, int rank,
                                      int direction, int reach) {
  return spelled_gradients({layout, partition, partition, pattern::From::neighbours, direction, reach}, rank);
}
inline GradientHopList ordered_gradients(const pattern::Layout& layout, const pattern::Partition& readers,
                                         const pattern::Partition& owners, int rank) {
  const pattern::OrderedRoute route(layout, readers, owners);
  GradientHopList list;
  for (int s = 0; s < int(readers.size()); ++s) list.push_back(route.step(rank, s));
  return list;
}

/// Rows of one owner; element d - 1 of a list is for distance d, with d = 1 ... reach. carried: the rows that arrive at
/// the rank at distance d in a ring. read_until: the rows that any rank at distance 1 ... d reads.
struct DefinedRoute {
  std::vector<PackedRows> carried, read_until;
};
inline DefinedRoute defined_route(const pattern::Layout& layout, const pattern::Partition& partition, int owner,
                                  int direction, int reach) {
  DefinedRoute route;
  std::vector<PackedRows> read;
  for (int d = 1; d <= reach; ++d) {
    const int reader = core::wrap(owner + d * direction, int(partition.size()));
    read.push_back(pattern::rows_read(layout, partition[std::size_t(owner)], partition[std::size_t(reader)]));
    route.read_until.push_back(pattern::join(d > 1 ? route.read_until.back() : PackedRows{}, read.back()));
  }
  route.carried = read;
  for (std::size_t i = read.size(); i-- > 1;) route.carried[i - 1] = pattern::join(read[i - 1], route.carried[i]);
  return route;
}

/// The hops of the neighbour ring by the definition, idle hops at the end included.
inline std::vector<HopList> defined_ring(const pattern::Layout& layout, const pattern::Partition& partition,
                                         int direction, int reach) {
  const int ranks = int(partition.size());
  std::vector<HopList> all(partition.size(), HopList(std::size_t(std::max(reach, 0))));
  for (int owner = 0; owner < ranks; ++owner) {
    const DefinedRoute route = defined_route(layout, partition, owner, direction, reach);
    for (int d = 1; d <= reach; ++d) {
      const int to = core::wrap(owner + d * direction, ranks), from = core::wrap(to - direction, ranks);
      Hop& arrives = all[std::size_t(to)][std::size_t(d - 1)];
      Hop& leaves = all[std::size_t(from)][std::size_t(d - 1)];
      arrives.receive_from = from;
      arrives.receive = route.carried[std::size_t(d - 1)];
      leaves.send_to = to;
      leaves.send = route.carried[std::size_t(d - 1)];
      leaves.send_own = d == 1;
    }
  }
  return all;
}

}  // namespace annulus::test
