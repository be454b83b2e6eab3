// Moves K and V in one channel (KeyRound) of hops: receives the rows on which the kernel works next, and sends own or
// received rows to another rank.
#pragma once

#include "annulus/comm/exchange.hpp"
#include "annulus/strategies/keys/hop_plan.hpp"

namespace annulus::strategies {

/// Has a channel's buffers on one rank, and its current block, on which the kernel works. For hop h = 0, 1, ... call
/// begin(h), send outgoing() and receive incoming(), then call take(h).
class HopChannel {
 public:
  /// `kv`: the rank's own K and V.
  HopChannel(const HopRound& round, std::size_t channel, int rank, void* kv);

  bool has(std::size_t h) const { return round_.has(rank_, channel_, h); }
  /// Returns the block of step s, which must be the current step or step 0; nullptr if there is no such block.
  const KeyBlock* block(std::size_t s) const;

  /// Collects the rows that hop h sends, if they cannot be sent from the receive buffer.
  void begin(std::size_t h);
  comm::Message outgoing() const { return outgoing_; }
  comm::Message incoming() const;
  /// The rows that hop h brought become the current block. Counts the bytes of both messages in `metrics`.
  void take(std::size_t h, core::HopMetrics& metrics);

 private:
  const HopRound& round_;
  const std::size_t channel_;
  const int rank_, part_;
  const BufferBytes bytes_;
  std::array<core::Buffer, 2> receive_;
  core::Buffer send_;
  KeyBlock own_, current_;
  pattern::Hop hop_;  // the hop in flight
  std::size_t h_ = 0;
  comm::Message outgoing_;
};

}  // namespace annulus::strategies
