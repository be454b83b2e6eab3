// Sums that travel back in hops: with the rows and home from the last reader, or straight home.
#pragma once

#include <deque>

#include "annulus/strategies/gradients/gradient_lane.hpp"
#include "annulus/strategies/gradients/gradient_sink.hpp"
#include "annulus/strategies/keys/hop_keys.hpp"

namespace annulus::strategies {

/// The ways of the sums for what the hops of each lane bring.
using GradientLanes = std::vector<pattern::GradientHops>;
using MakeGradients = std::function<GradientLanes(const pattern::Layout&, const pattern::Partition&, int rank)>;

/// With ring_lanes().
GradientLanes ring_gradient_lanes(const pattern::Layout& layout, const pattern::Partition& partition, int rank);

/// Sums for the rows of hop h travel while the kernel works on those of hop h + 1. An owner adds up what comes home hop
/// after hop, lane after lane: an order that only the plan decides. No rank holds more than, per lane, two blocks of
/// sums, one to send and one received.
class HopSums final : public GradientSink {
 public:
  HopSums(const Setting& setting, const HopKeys& keys, MakeGradients make_gradients);

  void begin(const Problem& round, const GradientBlock& own) override;
  std::size_t steps() const override;
  void start(std::size_t s) override;
  std::optional<GradientBlock> open(std::size_t s, std::size_t lane) override;
  void progress() override { exchange_.progress(); }
  void complete(std::size_t s) override;
  void finish() override { lanes_.clear(); }

 private:
  /// All messages of a step one way. Two ranks list what they have for each other in the same order.
  struct Messages {
    std::vector<comm::Message> near;  ///< between neighbours of the hops
    std::vector<comm::Message> home;
  };
  /// Sums of hop h travel in step h + 2.
  bool moves(std::size_t lane, std::size_t s) const { return s >= 2 && lanes_[lane].has(s - 2); }
  Messages messages(std::size_t s, GradientMessages (GradientLane::*which)(std::size_t));
  void start(Messages sends, Messages receives, std::size_t s);
  core::HopMetrics& waits(std::size_t s) const { return setting_.hop(s + 1); }

  const Setting setting_;
  const HopKeys& keys_;
  const MakeGradients make_gradients_;
  GradientLanes gradients_;
  GradientBlock own_;
  std::deque<GradientLane> lanes_;  // a deque: lanes do not move, messages and blocks point into them
  comm::Exchange exchange_;         // behind the lanes: when an error unwinds, messages end before their buffers do
};

/// K and V in hops, and the sums of what they bring.
BackwardPass hops_and_sums(HopMode mode, const MakeLanes& make_lanes, const MakeGradients& make_gradients);

}  // namespace annulus::strategies
