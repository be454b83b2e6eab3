// Sums of dK and dV that are added up in one order: how those of a slice of every rank's rows travel from rank to rank.
#pragma once

#include <array>
#include <optional>

#include "annulus/comm/exchange.hpp"
#include "annulus/pattern/gradient_hops.hpp"
#include "annulus/strategies/backward_computation.hpp"
#include "annulus/strategies/keys/key_plan.hpp"

namespace annulus::strategies {

/// What a channel of the keys does in one of rounds_of(problem), for one rank: it works on a slice of every part's
/// rows, in step s = 0, 1, ... on that of the part s below its own. Most often parts are the ranks' rows
/// (KeyRound::parts()). Keys and route are not copied.
class OrderedSlice {
 public:
  OrderedSlice(const KeyRound& keys, std::size_t channel, const pattern::OrderedRoute& route, int rank)
      : keys_(keys), channel_(channel), route_(route), rank_(rank) {}

  std::size_t steps() const { return keys_.parts().size(); }
  int part() const { return keys_.part(rank_, channel_); }
  /// The way of its sums after step s; valid until another two steps have been asked for.
  const pattern::GradientHop& travel(std::size_t s) const;
  /// The form of K and V of the slice that step s works on; holds nothing where this rank gets none of them.
  KeyBlock keys(std::size_t s) const { return s < keys_.steps(rank_) ? keys_.form(rank_, s, channel_) : KeyBlock{}; }

 private:
  const KeyRound& keys_;
  const std::size_t channel_;
  const pattern::OrderedRoute& route_;
  const int rank_;
  struct Known {
    std::optional<std::size_t> step;
    pattern::GradientHop travel;
  };
  mutable std::array<Known, 3> known_;  // of step s at index s mod 3
};

/// Bytes of the buffers for a slice's sums.
struct OrderedBytes {
  Index incoming = 0;  ///< sums of the step's rows; after them, what comes back
  Index block = 0;     ///< the former in the form of the K/V block, where that is another one
  Index outgoing = 0;  ///< what leaves

  Index total() const { return incoming + block + outgoing; }
  /// Where no block of K and V and no message of sums has more bytes of sums: what leaves goes forward or back, what
  /// arrives may be of both kinds.
  static OrderedBytes at_most(Index block, Index message) { return {2 * message, block, message}; }
};
OrderedBytes ordered_bytes(const Problem& problem, const OrderedSlice& slice);

/// The sums of one slice. Use for step s: at s > 0 settle(s - 1) and compute into begin(s), else into the own sums;
/// leave(s), then send and receive, until the next step needs what arrives; at the end settle(P - 1). Sums are only
/// copied, so their bits do not depend on their way. The problem and the slice are not copied.
class SliceSums {
 public:
  SliceSums(const Problem& problem, const OrderedSlice& slice, const GradientBlock& own);

  const pattern::GradientHop& hop(std::size_t s) const { return slice_.travel(s); }

  /// Where to add up for the K/V block of step s.
  GradientBlock begin(std::size_t s);
  /// Collects what leaves behind step s.
  void leave(std::size_t s);
  /// Messages after step s.
  std::vector<comm::Message> outgoing(std::size_t s) const;
  std::vector<comm::Message> incoming(std::size_t s) const;
  /// Puts what came back with the messages of step s back among the own sums.
  void settle(std::size_t s);

 private:
  comm::RowBlock as_message(const pattern::PackedRows& packed, void* data) const;
  kernels::RowArray array_of(const pattern::PackedRows& packed, void* data) const;

  const Problem& problem_;
  const OrderedSlice& slice_;
  const GradientBlock own_;
  const pattern::KeyRows own_rows_;  // that the slice has of them
  core::Buffer incoming_, block_, outgoing_;
};

}  // namespace annulus::strategies
