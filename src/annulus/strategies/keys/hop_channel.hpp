// One channel of hops on a rank: where K and V land, and what is sent on from there.
#pragma once

#include "annulus/comm/exchange.hpp"
#include "annulus/strategies/keys/hop_plan.hpp"

namespace annulus::strategies {

/// The buffers of a channel and the block in hand. Use for hop h, from 0 on: begin(h), the messages, take(h).
class HopChannel {
 public:
  /// `kv`: the rank's own K and V.
  HopChannel(const HopRound& round, std::size_t channel, int rank, void* kv);

  bool has(std::size_t h) const { return round_.has(rank_, channel_, h); }
  /// The block of step s: that in hand; nullptr where there is none.
  const KeyBlock* block(std::size_t s) const;

  /// Collects the rows of hop h that must be collected.
  void begin(std::size_t h);
  comm::Message outgoing() const { return outgoing_; }
  comm::Message incoming() const;
  /// What hop h brought becomes the block in hand; what it moved is counted.
  void take(std::size_t h, core::HopMetrics& metrics);

 private:
  const HopRound& round_;
  const std::size_t channel_;
  const int rank_, part_;
  const BufferBytes bytes_;
  std::array<core::Buffer, 2> receive_;
  core::Buffer send_;
  KeyBlock own_, in_hand_;
  pattern::Hop hop_;  // under way
  std::size_t h_ = 0;
  comm::Message outgoing_;
};

}  // namespace annulus::strategies
