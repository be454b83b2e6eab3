// dK and dV of a block's keys, with the queries that see them read out of a store, block after block. No sums of other
// keys are made, so nothing is written twice: scores are recomputed instead, 7 products for all gradients (3 for dq, 4
// here) where a pass that makes all at once has 5.
#pragma once

#include "annulus/strategies/backward_computation.hpp"
#include "annulus/strategies/store/query_stream.hpp"

namespace annulus::strategies {

/// All rounds, for all blocks.
class QueryPlan {
 public:
  QueryPlan(const std::vector<Problem>& rounds, const pattern::Partition& partition) {
    for (const Problem& round : rounds) rounds_.emplace_back(round, partition);
  }
  const std::deque<QueryRound>& rounds() const { return rounds_; }

 private:
  std::deque<QueryRound> rounds_;
};

/// Makes tensors.dkv of the rows of part location.rank() of the partition from tensors.kv and what the store has of
/// queries, `dlse` among it or not.
core::RankMetrics run_key_gradients(const QueryPlan& plan, const Problem& problem, const pattern::Partition& partition,
                                    const Location& location, bool dlse, Tensors& tensors, const Progress& progress);

/// Peak bytes of that, tensors.kv included.
Index key_gradients_memory(const QueryPlan& plan, const Problem& problem, const pattern::Partition& partition, int rank,
                           bool dlse);
/// Bytes of queries that it reads, own ones included.
Index query_bytes_read(const QueryPlan& plan, const Problem& problem, const pattern::Partition& partition, int rank,
                       bool dlse);

}  // namespace annulus::strategies
