// K and V read out of a store, which has the rows of all: what a part of the partition reads of which other part. Parts
// are blocks of rows then, as many as memory asks for, each computed by whatever rank comes by.
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
  std::deque<ReadRound> rounds_;
};

/// Own rows, then what is read of each other block.
MakePlans read_from_store();
/// The same, and no sums for any keys: a backward pass that makes dq alone.
MakePlans read_from_store_for_queries();

}  // namespace annulus::strategies
