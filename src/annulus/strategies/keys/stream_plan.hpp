// Plans how K and V are read from a store that has all rows. The elements of the partition are then blocks of rows, as
// small as memory requires, and any rank may compute any block. A plan says what each block reads from which block.
#pragma once

#include <deque>

#include "annulus/strategies/keys/read_round.hpp"
#include "annulus/strategies/schedule.hpp"

namespace annulus::strategies {

class StreamPlan final : public KeyPlan {
 public:
  StreamPlan(const std::vector<Problem>& rounds, const pattern::Partition& partition);

  const ReadRound& round(std::size_t i) const override { return rounds_[i]; }
  std::unique_ptr<KeySource> source(const PassContext& context) const override;

 private:
  std::deque<ReadRound> rounds_;  // a deque, because rounds cannot be moved
};

/// Makes plans in which a block works on its own rows first, then on the needed rows of other blocks, one by one.
MakePlans read_from_store();
/// The same for a backward pass that makes only dq and therefore no sums for keys.
MakePlans read_from_store_for_queries();

}  // namespace annulus::strategies
