// Plans which rows every rank works on in each step if K and V of all ranks are gathered on every rank (O(n) memory).
#pragma once

#include <deque>

#include "annulus/strategies/keys/key_source.hpp"
#include "annulus/strategies/schedule.hpp"

namespace annulus::strategies {

/// Selects in which order a rank works on the rows of other ranks, and whether it first waits for all these rows.
///   at_once       all rows in one block and one step, after blocking collectives
///   all_first     rows of rank - 1, rank - 2, ..., after the rows of all ranks have arrived
///   in_order      rows of rank - 1, rank - 2, ..., each block as soon as it has arrived
///   as_they_come  blocks in the order of arrival; ranks without rows are left out
enum class GatherOrder { at_once, all_first, in_order, as_they_come };

class GatheredRound final : public KeyRound {
 public:
  /// Only the first round gathers; later rounds use what it has gathered.
  GatheredRound(const Problem& round, const pattern::Partition& partition, GatherOrder order, bool is_first)
      : KeyRound(round, partition), order_(order), is_first_(is_first) {}

  std::size_t steps(int rank) const override;
  std::size_t hops(int) const override { return order_ == GatherOrder::at_once ? 1 : partition().size(); }
  std::size_t hop(int rank, std::size_t s) const override;
  std::string scope(int rank, std::size_t s) const override;
  int owner(int rank, std::size_t s, std::size_t channel) const override;
  KeyBlock form(int rank, std::size_t s, std::size_t channel) const override;
  Transfers transfers(int rank, std::size_t s) const override;
  std::vector<Index> buffer_bytes(int rank) const override { return {gathered_bytes(rows(rank).count())}; }
  /// Bytes of K and V that a rank with `own` rows gathers.
  Index gathered_bytes(Index own) const {
    return problem().kv_block_bytes(problem().shape.sequence - (order_ == GatherOrder::at_once ? 0 : own));
  }

  GatherOrder order() const { return order_; }

 private:
  GatherOrder order_;
  bool is_first_;
};

class GatheredPlan final : public KeyPlan {
 public:
  GatheredPlan(const std::vector<Problem>& rounds, const pattern::Partition& partition, GatherOrder order);

  const GatheredRound& round(std::size_t i) const override { return rounds_[i]; }
  std::unique_ptr<KeySource> source(const PassContext& context) const override;
  /// Bytes on the rank with the most rows. This rank gathers the fewest rows, but needs the most memory in all.
  Room room(const LargestMessages&) const override {
    return {rounds_[0].gathered_bytes(most_rows(rounds_[0].partition()))};
  }

 private:
  std::deque<GatheredRound> rounds_;  // a deque, because rounds cannot be moved
};

/// Makes the plans of a forward pass with gathered keys.
MakePlans gathered(GatherOrder order);

}  // namespace annulus::strategies
