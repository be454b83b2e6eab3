// A channel (KeyRound) of hops on a rank: the buffers into which K and V are received and from which they leave.
#pragma once

#include "annulus/comm/exchange.hpp"
#include "annulus/strategies/keys/hop_plan.hpp"

namespace annulus::strategies {

/// Buffers and current block of a channel. For hop h = 0, 1, ... call begin(h), exchange the two messages, and call
/// take(h).
class HopChannel {
 public:
  /// `kv`: the rank's own K and V.
  HopChannel(const HopRound& round, std::size_t channel, int rank, void* kv);

  bool has(std::size_t h) const { return round_.has(rank_, channel_, h); }
  /// The block of step s, which must be the current step; nullptr where there is none.
  const KeyBlock* block(std::size_t s) const;

  /// Collects the rows that hop h sends, if they cannot be sent from the receive buffer.
  void begin(std::size_t h);
  comm::Message outgoing() const { return outgoing_; }
  comm::Message incoming() const;
  /// The rows that hop h brought become the current block. Counts their bytes in `metrics`.
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
