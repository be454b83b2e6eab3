// One direction of hops, the way back: gradients of the rows that hops brought, and those of the own rows coming back.
#pragma once

#include <array>

#include "annulus/comm/exchange.hpp"
#include "annulus/strategies/backward_computation.hpp"
#include "annulus/strategies/keys/hop_plan.hpp"

namespace annulus::strategies {

/// Messages of one hop's gradients; `near` to and from the neighbour, `send_back` to owners and from readers.
struct GradientMessages {
  comm::Message near;
  comm::Message back;
};

/// Bytes of a channel's gradient buffers: the sums for hop h's rows are in block h mod 2.
struct GradientBytes {
  std::array<Index, 2> blocks{};
  Index outgoing = 0;  ///< what must be collected to leave
  Index incoming = 0;

  /// Those of so many hops, where no block and no message of sums has more bytes, and up to so many messages leave and
  /// arrive at a time.
  static GradientBytes at_most(std::size_t hops, Index block, Index messages, Index message) {
    return {{hops > 0 ? block : 0, hops > 1 ? block : 0}, messages * message, messages * message};
  }
  /// Those held in step s of BackwardLoop: the first gradients leave in step 2.
  Index during(std::size_t s) const { return blocks[0] + blocks[1] + (s >= 2 ? outgoing + incoming : 0); }
};
GradientBytes gradient_buffer_bytes(const Problem& problem, const pattern::Hops& hops, int rank);

/// Use for hop h (from 0): open(h) and compute into the block, settle(h - 1), then begin(h), send outgoing() and
/// receive incoming() while the kernel works on the block of hop h + 1, settle(h). Arguments are not copied.
class GradientChannel {
 public:
  GradientChannel(const HopRound& keys, std::size_t channel, int rank, const GradientBlock& own);

  bool has(std::size_t h) const { return keys_.has(rank_, channel_, h); }

  /// Zeros for the rows that hop h brought.
  GradientBlock open(std::size_t h);
  /// The sums for hop h's rows are complete; collects what must be collected.
  void begin(std::size_t h);
  /// Where they go, and what comes.
  const GradientMessages& outgoing() const { return messages_out_; }
  GradientMessages incoming();
  /// Adds what came with the messages of hop h: to the sums for hop h + 1's rows and to those for the own rows. What
  /// they moved is counted.
  void settle(std::size_t h, core::HopMetrics& metrics);

 private:
  GradientBlock block(std::size_t h, Index rows) const;
  /// `packed` in a buffer.
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
  core::Buffer outgoing_;  // both made when first used: by then K and V need less
  core::Buffer incoming_;
  pattern::GradientHop hop_;  // under way
  GradientMessages messages_out_;
};

}  // namespace annulus::strategies
