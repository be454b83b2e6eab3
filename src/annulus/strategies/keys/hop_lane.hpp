// One direction of hops: where K and V land, and what is sent on from there.
#pragma once

#include <array>

#include "annulus/comm/exchange.hpp"
#include "annulus/strategies/computation.hpp"

namespace annulus::strategies {

/// Bytes of a lane's buffers: what hop h brings lands in receive buffer h mod 2.
struct BufferBytes {
  std::array<Index, 2> receive{};
  Index send = 0;
  std::size_t sending_hops = 0;  ///< the send buffer is freed behind so many hops

  Index total() const { return receive[0] + receive[1] + send; }
  /// Those held while hop h is under way.
  Index during(std::size_t h) const { return receive[0] + receive[1] + (h < sending_hops ? send : 0); }
};
BufferBytes buffer_bytes(const Problem& problem, const pattern::Hops& hops);

/// Adds the bytes of K and V that the hops of a rank move.
void add_hops(const Problem& problem, const pattern::Hops& hops, Prediction& prediction);

/// The buffers of one direction and the block in hand. `problem`, `hops` and `own` are not copied.
class Lane {
 public:
  Lane(const Problem& problem, const pattern::Hops& hops, const KeyBlock& own);

  std::size_t count() const { return hops_.size(); }
  bool has(std::size_t h) const { return h < count(); }

  /// The message of hop h (from 0); collects its rows where they must be collected.
  comm::Message outgoing(std::size_t h) const;
  comm::Message incoming(std::size_t h) const;
  /// What hop h brought becomes the block in hand; what it moved is counted.
  void take(std::size_t h, core::HopMetrics& metrics);
  const KeyBlock& in_hand() const { return in_hand_; }

 private:
  const Problem& problem_;
  const pattern::Hops& hops_;
  const KeyBlock& own_;
  std::array<core::Buffer, 2> receive_;
  core::Buffer send_;
  std::size_t sending_hops_ = 0;
  KeyBlock in_hand_;
};

}  // namespace annulus::strategies
