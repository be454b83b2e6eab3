// Makes sums for key rows in one fixed order. Each rank's rows are divided into slices (ordered_sums.hpp). For each
// slice, the sums for this slice's rows on every rank travel from rank to rank.
#pragma once

#include <array>
#include <optional>

#include "annulus/comm/exchange.hpp"
#include "annulus/pattern/gradient_hops.hpp"
#include "annulus/strategies/backward_computation.hpp"
#include "annulus/strategies/keys/key_plan.hpp"

namespace annulus::strategies {

/// Describes what one rank does in one channel of the keys, in one round of rounds_of(problem). The channel has a
/// slice of the rows of every part; usually the parts are the ranks' rows (KeyRound::parts()). Step s = 0, 1, ... of
/// part v works on the slice of part v - s, counted round the ring. Keys and route are not copied.
class OrderedSlice {
 public:
  OrderedSlice(const KeyRound& keys, std::size_t channel, const pattern::OrderedRoute& route, int rank)
      : keys_(keys), channel_(channel), route_(route), rank_(rank) {}

  std::size_t steps() const { return keys_.parts().size(); }
  int part() const { return keys_.part(rank_, channel_); }
  /// Returns how the sums travel after step s. The reference stays valid until travel(s + 3) is called.
  const pattern::GradientHop& travel(std::size_t s) const;
  /// Describes K and V of the slice in step s as a block without data. The block has no rows if this rank reads no row
  /// of the slice.
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
  mutable std::array<Known, 3> known_;  // step s is at index s mod 3
};

/// Bytes of the buffers for a slice's sums.
struct OrderedBytes {
  Index incoming = 0;  ///< sums for the step's rows, and behind them sums that return to the own rows
  Index block = 0;     ///< sums for the step's rows in the form of the K/V block, if sums travel in another form
  Index outgoing = 0;  ///< sums that this rank sends

  Index total() const { return incoming + block + outgoing; }
  /// An upper bound, if no K/V block has more than `block` bytes of sums and no message more than `message` bytes. In a
  /// step each sum is sent once, forward or back, but two full messages may arrive, one of each kind.
  static OrderedBytes at_most(Index block, Index message) { return {2 * message, block, message}; }
};
OrderedBytes ordered_bytes(const Problem& problem, const OrderedSlice& slice);

/// The sums of one slice. In step 0 the kernel adds to the own sums. In step s > 0 call settle(s - 1); the kernel then
/// adds to the block that begin(s) returns. After the kernel call leave(s), send outgoing(s) and receive incoming(s),
/// which step s + 1 needs. At the end call settle() for the last step. Each rank adds its terms to the sums that it
/// gets, and sums of two ranks are never added to each other, so bits do not depend on the route. The problem and the
/// slice are not copied.
class SliceSums {
 public:
  SliceSums(const Problem& problem, const OrderedSlice& slice, const GradientBlock& own);

  const pattern::GradientHop& hop(std::size_t s) const { return slice_.travel(s); }

  /// Returns the memory to which the kernel adds the sums for the K/V block of step s.
  GradientBlock begin(std::size_t s);
  /// Collects the sums that this rank sends after step s.
  void leave(std::size_t s);
  /// The messages that this rank sends, and those that it receives, after step s.
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
  const pattern::KeyRows own_rows_;  // the own rows that are in the slice
  core::Buffer incoming_, block_, outgoing_;
};

}  // namespace annulus::strategies
