// Moves sums in one channel (KeyRound) of hops: sums for rows that hops brought leave this rank, and sums for its own
// rows return.
#pragma once

#include <array>

#include "annulus/comm/exchange.hpp"
#include "annulus/strategies/backward_computation.hpp"
#include "annulus/strategies/keys/hop_plan.hpp"

namespace annulus::strategies {

/// The messages with one hop's sums that a rank sends, or those that it receives. `near` goes to the next neighbour or
/// comes from the previous one. `back` goes to the owner of the rows, or comes from a rank that read this rank's rows.
struct GradientMessages {
  comm::Message near;
  comm::Message back;
};

/// Bytes of a channel's buffers for sums on one rank. The sums for the rows of hop h are in block h mod 2.
struct GradientBytes {
  std::array<Index, 2> blocks{};
  Index outgoing = 0;  ///< sums that must be collected before they are sent
  Index incoming = 0;

  /// An upper bound for `hops` hops, if no block has more than `block` bytes of sums and no message more than `message`
  /// bytes, and if at most `messages` messages leave, and as many arrive, at a time.
  static GradientBytes at_most(std::size_t hops, Index block, Index messages, Index message) {
    return {{hops > 0 ? block : 0, hops > 1 ? block : 0}, messages * message, messages * message};
  }
  /// Bytes that are held in step s of the backward loop. The first sums are made in step 1 and leave in step 2.
  Index during(std::size_t s) const { return blocks[0] + blocks[1] + (s >= 2 ? outgoing + incoming : 0); }
};
GradientBytes gradient_buffer_bytes(const Problem& problem, const pattern::Hops& hops, int rank);

/// For hop h = 0, 1, ... call open(h); the kernel then adds to the block. After settle(h - 1) call begin(h). Send
/// outgoing() and receive incoming() while the kernel works on the rows of hop h + 1. Then call settle(h). Arguments of
/// the constructor are not copied.
class GradientChannel {
 public:
  GradientChannel(const HopRound& keys, std::size_t channel, int rank, const GradientBlock& own);

  bool has(std::size_t h) const { return keys_.has(rank_, channel_, h); }

  /// Returns the block for the sums of the rows that hop h brought, filled with zeros.
  GradientBlock open(std::size_t h);
  /// Call this when the sums for the rows of hop h are complete. Collects the sums that cannot be sent straight from
  /// the block.
  void begin(std::size_t h);
  /// The messages that begin(h) made ready to send, and those to receive at the same time.
  const GradientMessages& outgoing() const { return messages_out_; }
  GradientMessages incoming();
  /// Adds the sums that came with the messages of hop h to the sums for the rows of hop h + 1 and to the sums for the
  /// own rows. Counts the bytes in `metrics`.
  void settle(std::size_t h, core::HopMetrics& metrics);

 private:
  GradientBlock block(std::size_t h, Index rows) const;
  /// A message with the sums of `packed` rows, at `data`.
  comm::RowBlock as_message(const pattern::PackedRows& packed, void* data) const;
  void add(const pattern::KeyRows& rows, const GradientBlock& into, const pattern::PackedRows& packed,
           void* data) const;

  const HopRound& keys_;
  const std::size_t channel_;
  const int rank_;
  const Problem& problem_;
  const pattern::Hops& hops_;
  pattern::KeyRows own_rows_;
  const GradientBlock& own_;
  const GradientBytes bytes_;
  std::array<core::Buffer, 2> blocks_;
  core::Buffer outgoing_;  // outgoing_ and incoming_ are allocated at first use, in step 2 (GradientBytes::during())
  core::Buffer incoming_;
  pattern::GradientHop hop_;  // the hop in flight
  GradientMessages messages_out_;
};

}  // namespace annulus::strategies
