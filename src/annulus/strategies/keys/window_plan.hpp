// Plans what each rank reads from which owner if K and V are read from other ranks' memory.
#pragma once

#include <deque>

#include "annulus/strategies/keys/read_round.hpp"
#include "annulus/strategies/schedule.hpp"

namespace annulus::strategies {

/// Before step 0 every rank exposes its own rows. Ranks that need some of these rows read them later. All rows that
/// other ranks read from an owner count as sent in the owner's step 0.
class WindowRound final : public ReadRound {
 public:
  using ReadRound::ReadRound;

  Transfers transfers(int rank, std::size_t s) const override;
  /// True if any other rank reads rows of this rank.
  bool is_read(int rank) const;
};

class WindowPlan final : public KeyPlan {
 public:
  WindowPlan(const std::vector<Problem>& rounds, const pattern::Partition& partition);

  const WindowRound& round(std::size_t i) const override { return rounds_[i]; }
  std::unique_ptr<KeySource> source(const PassContext& context) const override;
  /// Bytes of the copy of the rank's K and V that other ranks read; 0 if no other rank reads any of it.
  Index window_bytes(int rank) const override;
  /// Bytes of a buffer for one part (Problem::kv_parts()). The rows of each part are collected in the buffer, then
  /// copied into the window.
  Index opening_bytes(int rank) const override { return part_of(window_bytes(rank)); }
  Room room(const LargestMessages& largest) const override;
  bool is_read(int rank) const;

 private:
  Index part_of(Index window) const { return window / rounds_[0].problem().kv_parts(); }

  std::deque<WindowRound> rounds_;  // a deque, because rounds cannot be moved
};

/// Makes plans in which a rank works on its own rows first, then on the rows that it reads from each other rank.
MakePlans read_from_windows();

}  // namespace annulus::strategies
