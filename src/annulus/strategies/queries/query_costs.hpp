// Predicts the costs of sending all queries to every rank, and of returning the partial results to the queries' owners.
#pragma once

#include "annulus/strategies/computation.hpp"

namespace annulus::strategies {

/// Returns the problem that each rank computes with its own keys when it has all queries.
Problem with_all_queries(Problem problem);

/// Costs of one pass, from numbers of rows alone. `own` is a rank's number of queries, in memory() also its number of
/// keys. The problem is not copied.
///
/// Worked example: 64 queries of 8 heads of 64 float32 on 4 ranks, 16 on each. In the forward pass a rank receives 48
/// rows of q (2 KiB each). For each of its 16 queries, it receives m and l (32 bytes each) and the accumulator (2 KiB)
/// from 3 ranks. Together that is 195 KiB, for any number of keys.
class QueryCosts {
 public:
  /// `problem` is from with_all_queries(); `with_sums`: the pass makes Problem::sums.
  QueryCosts(const Problem& problem, bool with_sums, Index ranks);

  Index bytes_sent(Index own) const {
    return batch() * ((ranks_ - 1) * own * query_bytes_ + (all() - own) * returned_bytes_);
  }
  Index bytes_received(Index own) const { return batch() * (all() - own) * query_bytes_ + bytes_returned(own); }
  /// Bytes of the partial results that return to this rank; bytes_received() includes them.
  Index bytes_returned(Index own) const { return batch() * (ranks_ - 1) * own * returned_bytes_; }
  /// Bytes that a rank with `own` queries receives from a rank with `theirs` queries.
  Index bytes_from(Index own, Index theirs) const { return batch() * (theirs * query_bytes_ + own * returned_bytes_); }
  /// Number of messages that a rank with queries receives.
  Index messages() const { return tensors_ * (ranks_ - 1); }
  /// Peak bytes of a rank with this many rows, including the tensors that it has before the pass.
  Index memory(const RowCounts& own) const;

 private:
  Index batch() const { return problem_.shape.batch; }
  Index all() const { return problem_.query_count(); }
  Index forward_memory(const RowCounts& own) const;
  Index backward_memory(const RowCounts& own) const;
  Index statistics_memory(const RowCounts& own) const;

  const Problem& problem_;
  const bool with_sums_;
  const Index ranks_;
  Index query_bytes_ = 0, returned_bytes_ = 0;  ///< bytes of a query's row, and of its partial result
  Index tensors_ = 0;                           ///< number of tensors that travel
};

}  // namespace annulus::strategies
