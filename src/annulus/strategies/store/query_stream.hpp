// Makes dK and dV of a block's keys. The backward loop runs over the queries that see these keys; it reads the queries
// from a store, two blocks ahead of the kernel. A block makes no sums for other blocks' keys, so each result is written
// once. The price is that scores are computed twice: gradients take 7 products for a kept triple (3 for dq, 4 here),
// whereas one pass for dq, dK and dV together would take 5.
#pragma once

#include "annulus/strategies/schedule.hpp"
#include "annulus/strategies/store/query_round.hpp"
#include "annulus/strategies/stored_read.hpp"

namespace annulus::strategies {

/// All rounds, for all blocks.
class QueryPlan final : public KeyPlan {
 public:
  QueryPlan(const std::vector<Problem>& rounds, const pattern::Partition& partition, bool dlse);

  const QueryRound& round(std::size_t i) const override { return rounds_[i]; }
  std::unique_ptr<KeySource> source(const PassContext& context) const override;

 private:
  std::deque<QueryRound> rounds_;  // a deque, because rounds cannot be moved
};

/// The KeySource of a pass that makes dK and dV of a block. All steps work on the block's own keys: step 0 with the
/// block's own queries, the other steps with queries of other blocks.
class StoredQueries final : public ReadKeys {
 public:
  StoredQueries(const PassContext& context, const QueryPlan& plan) : ReadKeys(context), plan_(plan) {}

  void begin(std::size_t round) override { begin_round(plan_.round(round)); }
  const KeyBlock* block(std::size_t, std::size_t) const override { return &own_; }
  QueryBlock queries(std::size_t s, std::size_t channel) const override;
  void complete(std::size_t s) override;

 private:
  void start_read(std::size_t slot, const pattern::Hop& from, const KeyBlock& into, core::HopMetrics& metrics) override;
  void end_read(std::size_t slot) override { reads_[slot].wait(); }

  struct Block {
    pattern::StoredRows rows;
    Tensors tensors;
  };
  const QueryPlan& plan_;
  std::array<Block, slots> queries_;
  std::array<StoredRead, slots> reads_;  // freed before the buffers of ReadKeys, so that reads end first
};

/// Makes plans of passes that make only the sums for a block's keys. `dlse`: the store has gradients of the LSE.
MakePlans read_from_store_for_keys(bool dlse);

}  // namespace annulus::strategies
