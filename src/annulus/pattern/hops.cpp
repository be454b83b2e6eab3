#include "annulus/pattern/hops.hpp"

namespace annulus::pattern {

Hops::Hops(const Layout& layout, const Partition& owners, const Partition& readers, From from, int direction, int reach)
    : routes_(layout, owners, readers, direction, reach), from_(from), counts_(readers.size(), -1) {}

int Hops::count(int rank) const {
  if (from_ == From::neighbours) return routes_.farthest();
  int& count = counts_[std::size_t(rank)];
  if (count >= 0) return count;
  count = routes_.ranks() - 1;
  while (count > 0 && rows_received(rank, count - 1) == 0 && rows_sent(rank, count - 1) == 0) --count;
  return count;
}

Index Hops::rows_received(int rank, int h) const {
  const int owner = this->owner(rank, h);
  return from_ == From::owners ? routes_.rows_read(owner, h + 1) : routes_.rows_carried(owner, h + 1);
}

Index Hops::rows_sent(int rank, int h) const {
  return from_ == From::owners ? routes_.rows_read(rank, h + 1) : routes_.rows_carried(at(rank, -h), h + 1);
}

bool Hops::passes_on(int rank, int h) const {
  return from_ == From::neighbours && h > 0 && routes_.passes_on_all(at(rank, -h), h);
}

Hop Hops::hop(int rank, int h) const {
  const int owner = this->owner(rank, h);
  Hop hop{send_to(rank, h), receive_from(rank, h), {}, {}, true};
  if (from_ == From::owners) {
    hop.send = routes_.read(rank, h + 1);
    hop.receive = routes_.read(owner, h + 1);
  } else {
    hop.send = routes_.carried(at(rank, -h), h + 1);
    hop.receive = routes_.carried(owner, h + 1);
    hop.send_own = h == 0;
  }
  return hop;
}

GradientHop Hops::gradients(int rank, int h) const {
  if (from_ == From::neighbours) return ring_gradients(rank, h);
  Hop hop = this->hop(rank, h);
  return {at(rank, 1), hop.receive_from,       at(rank, -1), hop.send_to,
          {},          std::move(hop.receive), {},           std::move(hop.send)};
}

GradientHop Hops::ring_gradients(int rank, int h) const {
  const int d = h + 1;
  const auto forward = [&](int owner, int distance) {
    return sums_sent_forward(routes_.carried(owner, distance + 1), routes_.read_until(owner, distance));
  };
  const auto back = [&](int owner, int distance) {
    return sums_sent_back(routes_.carried(owner, distance), routes_.carried(owner, distance + 1),
                          routes_.read_until(owner, distance));
  };
  GradientHop hop;
  hop.next = at(rank, 1);
  hop.previous = at(rank, -1);
  hop.owner = owner(rank, h);
  hop.reader_of_own_rows = at(rank, d);
  hop.send_forward = forward(hop.owner, d);
  hop.send_back = back(hop.owner, d);
  hop.receive_back = back(rank, d);
  hop.receive_forward = forward(at(rank, -d - 1), d);
  return hop;
}

}  // namespace annulus::pattern
