// K and V read out of other ranks' memory: what is read of whom.
#pragma once

#include <deque>

#include "annulus/strategies/keys/read_round.hpp"
#include "annulus/strategies/schedule.hpp"

namespace annulus::strategies {

/// The own rows are there, at step 0, for all who read them.
class WindowRound final : public ReadRound {
 public:
  using ReadRound::ReadRound;

  Transfers transfers(int rank, std::size_t s) const override;
  /// Any rank reads any of this one's rows.
  bool is_read(int rank) const;
};

class WindowPlan final : public KeyPlan {
 public:
  WindowPlan(const std::vector<Problem>& rounds, const pattern::Partition& partition);

  const WindowRound& round(std::size_t i) const override { return rounds_[i]; }
  std::unique_ptr<KeySource> source(const PassContext& context) const override;
  /// A copy of the rank's K and V; none where no rank reads any of it.
  Index window_bytes(int rank) const override;
  /// A part of the window, K or V of one batch entry, on its way there.
  Index opening_bytes(int rank) const override { return part_of(window_bytes(rank)); }
  Room room(const LargestMessages& largest) const override;
  bool is_read(int rank) const;

 private:
  Index part_of(Index window) const { return window / (2 * rounds_[0].problem().shape.batch); }

  std::deque<WindowRound> rounds_;
};

/// Own rows, then what is read from each owner.
MakePlans read_from_windows();

}  // namespace annulus::strategies
