// K and V of other ranks, hop after hop: all lanes of a rank, and when their messages travel.
#pragma once

#include <deque>

#include "annulus/strategies/hop_lane.hpp"

namespace annulus::strategies {

/// When a hop's messages travel.
///   overlapped  started before the kernel works on the blocks in hand, completed after it; two buffers a lane receive
///   blocking    between two kernel calls, even ranks sending first; nothing hidden
enum class HopMode { overlapped, blocking };

/// Directions that are under way at the same time; lane l at hop h does lanes[l][h].
using Lanes = std::vector<pattern::Hops>;

/// Tag of a hop's messages. Messages that may be under way beside K and V have a `kind` of their own, from 1 on.
constexpr int hop_tag(std::size_t hop, std::size_t kind = 0) { return int(1024 * kind + hop % 1024); }

/// Use for hop h (from 0): start(h), progress() now and then while computing, complete(h), blocks(h).
class KeyHops {
 public:
  KeyHops(const Problem& problem, HopMode mode, const comm::Communicator& comm);

  /// One lane more. `hops` and `own` are not copied.
  void add_lane(const pattern::Hops& hops, const KeyBlock& own) { lanes_.emplace_back(problem_, hops, own); }
  /// Hops of the longest lane.
  std::size_t count() const;

  /// Overlapped: starts the messages of hop h.
  void start(std::size_t h, core::HopMetrics& metrics);
  void progress() { exchange_.progress(); }
  /// Ends the messages of hop h, whose metrics these are.
  void complete(std::size_t h, core::HopMetrics& metrics);
  /// What hop h, the last one completed, brought: a block of each lane that is that long.
  std::vector<KeyBlock> blocks(std::size_t h) const;

 private:
  std::vector<comm::Message> outgoing(std::size_t h) const;
  std::vector<comm::Message> incoming(std::size_t h) const;

  const Problem& problem_;
  const HopMode mode_;
  std::deque<Lane> lanes_;   // a deque: a lane does not move, messages and blocks point into it
  comm::Exchange exchange_;  // behind the lanes: when an error unwinds, messages end before their buffers do
};

}  // namespace annulus::strategies
