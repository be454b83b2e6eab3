// Sums of dK and dV in one fixed order: how the sums for one slice of every rank's rows travel from rank to rank.
#pragma once

#include <array>
#include <optional>

#include "annulus/comm/exchange.hpp"
#include "annulus/pattern/gradient_hops.hpp"
#include "annulus/strategies/backward_computation.hpp"
#include "annulus/strategies/keys/key_plan.hpp"

namespace annulus::strategies {

/// What one rank does in one channel of the keys, in one round of rounds_of(problem). The channel has a slice of every
/// part's rows; usually the parts are the ranks' rows (KeyRound::parts()). Step s = 0, 1, ... works on the slice of the
/// part that is s before the rank's own part. Keys and route are not copied.
class OrderedSlice {
 public:
  OrderedSlice(const KeyRound& keys, std::size_t channel, const pattern::OrderedRoute& route, int rank)
      : keys_(keys), channel_(channel), route_(route), rank_(rank) {}

  std::size_t steps() const { return keys_.parts().size(); }
  int part() const { return keys_.part(rank_, channel_); }
  /// How the sums travel after step s. The reference stays valid while the next two steps are asked for.
  const pattern::GradientHop& travel(std::size_t s) const;
  /// The form of K and V of the slice in step s; holds nothing where this rank reads none of these rows.
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
  Index incoming = 0;  ///< sums of the step's rows, then returning sums
  Index block = 0;     ///< the sums of the step's rows in the form of the K/V block, if that differs
  Index outgoing = 0;  ///< sums that leave

  Index total() const { return incoming + block + outgoing; }
  /// An upper bound, if no K/V block has more than `block` bytes of sums and no message more than `message` bytes.
  /// Sums leave either forward or back, but may arrive from both directions at once.
  static OrderedBytes at_most(Index block, Index message) { return {2 * message, block, message}; }
};
OrderedBytes ordered_bytes(const Problem& problem, const OrderedSlice& slice);

/// The sums of one slice. Use: in step 0 compute into the own sums; in step s > 0 settle(s - 1) and compute into
/// begin(s). Then leave(s), send and receive; the next step needs what arrives. At the end settle(P - 1). On the way
/// sums are only copied, so their bits do not depend on the way. The problem and the slice are not copied.
class SliceSums {
 public:
  SliceSums(const Problem& problem, const OrderedSlice& slice, const GradientBlock& own);

  const pattern::GradientHop& hop(std::size_t s) const { return slice_.travel(s); }

  /// Where to add the sums for the K/V block of step s.
  GradientBlock begin(std::size_t s);
  /// Collects the sums that leave after step s.
  void leave(std::size_t s);
  /// Messages after step s.
  std::vector<comm::Message> outgoing(std::size_t s) const;
  std::vector<comm::Message> incoming(std::size_t s) const;
  /// Copies the sums that returned with the messages of step s into the own sums.
  void settle(std::size_t s);

 private:
  comm::RowBlock as_message(const pattern::PackedRows& packed, void* data) const;
  kernels::RowArray array_of(const pattern::PackedRows& packed, void* data) const;

  const Problem& problem_;
  const OrderedSlice& slice_;
  const GradientBlock own_;
  const pattern::KeyRows own_rows_;  // those of the own rows that are in the slice
  core::Buffer incoming_, block_, outgoing_;
};

}  // namespace annulus::strategies
