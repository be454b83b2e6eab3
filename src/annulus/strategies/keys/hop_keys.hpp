// K and V of other ranks, hop after hop, in messages from rank to rank.
#pragma once

#include <deque>

#include "annulus/strategies/keys/hop_lane.hpp"
#include "annulus/strategies/keys/key_source.hpp"

namespace annulus::strategies {

/// Hops of one rank in a round: lane l does lanes[l][h] at hop h, all lanes at the same time. A lane's own rows are
/// what it sends first, and its block of step 0.
struct HopPlan {
  struct Lane {
    pattern::Hops hops;
    KeyBlock own;
    bool computes_own = true;  ///< false: another lane has these own rows, too, and works on them
  };
  std::vector<Lane> lanes;

  /// Of the longest lane.
  std::size_t hops() const;
  /// The block of step s in a lane, without data but for the own rows; none behind the lane's last hop.
  KeyBlock form(std::size_t s, std::size_t lane) const;
};

/// Directions in which rows travel at the same time; lane l at hop h does lanes[l][h].
using Lanes = std::vector<pattern::Hops>;
/// Hops of one rank; made anew for every round.
using MakeLanes = std::function<Lanes(const pattern::Layout&, const pattern::Partition&, int rank)>;
/// Whole rows of the rank in every lane.
HopPlan plan_hops(const MakeLanes& lanes, const Problem& round, const pattern::Partition& partition, int rank,
                  const KeyBlock& own);

/// The ring: one lane upwards, all the way round.
Lanes ring_lanes(const pattern::Layout& layout, const pattern::Partition& partition, int rank);

/// Tag of a hop's messages. Messages that may be in flight beside K and V have a `kind` of their own, from 1 on.
constexpr int hop_tag(std::size_t hop, std::size_t kind = 0) { return int(1024 * kind + hop % 1024); }

/// Runs the hops of a plan: step s works on the own rows (s = 0) or what hop s - 1 brought.
class HopKeys final : public KeySource {
 public:
  using MakePlan = std::function<HopPlan(const Problem& round)>;
  HopKeys(const Setting& setting, HopMode mode, MakePlan make_plan);

  void begin(const Problem& round) override;
  std::size_t steps() const override { return plan_.hops() + 1; }
  std::size_t lanes() const override { return plan_.lanes.size(); }
  std::string place(std::size_t s) const override;
  const KeyBlock* block(std::size_t s, std::size_t lane) const override;
  KeyBlock form(std::size_t s, std::size_t lane) const override { return plan_.form(s, lane); }
  void start(std::size_t s) override;
  void progress() override { exchange_.progress(); }
  void complete(std::size_t s) override;
  void finish() override { lanes_.clear(); }

  const HopPlan& plan() const { return plan_; }
  HopMode mode() const { return mode_; }

 private:
  using Messages = std::vector<comm::Message>;
  Messages outgoing(std::size_t h) const;
  Messages incoming(std::size_t h) const;

  const Setting setting_;
  const HopMode mode_;
  const MakePlan make_plan_;
  HopPlan plan_;
  std::deque<Lane> lanes_;   // a deque: a lane does not move, messages and blocks point into it
  comm::Exchange exchange_;  // behind the lanes: when an error unwinds, messages end before their buffers do
};

/// Own keys first, then the rows that each hop brings: no rank holds more than its own rows and, per lane, two received
/// blocks and one to send, whatever P is.
ForwardPass hops(HopMode mode, const MakeLanes& make_lanes);

}  // namespace annulus::strategies
