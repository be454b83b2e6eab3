// What it costs to bring all queries to every rank, and home what its keys give them.
#pragma once

#include "annulus/strategies/computation.hpp"

namespace annulus::strategies {

/// The problem of each rank that gets all queries.
Problem with_all_queries(Problem problem);

/// Costs of one pass, from numbers of rows alone; `own` are a rank's queries. The problem is not copied.
///
/// Worked example: 64 queries of 8 heads of 64 float32 on 4 ranks, 16 each. Forward a rank gets 48 rows of q (2 KiB
/// each), and of its 16 queries from each of 3 ranks l, m (32 bytes each) and the accumulator (2 KiB): 195 KiB, however
/// many keys there are.
class QueryCosts {
 public:
  /// `problem` is that of with_all_queries(); `with_sums`: of the pass that makes Problem::sums.
  QueryCosts(const Problem& problem, bool with_sums, Index ranks);

  Index bytes_sent(Index own) const { return batch() * ((ranks_ - 1) * own * there_ + (all() - own) * back_); }
  Index bytes_received(Index own) const { return batch() * (all() - own) * there_ + bytes_home(own); }
  /// The part of these that the keys of other ranks give the own queries.
  Index bytes_home(Index own) const { return batch() * (ranks_ - 1) * own * back_; }
  /// From a rank that has `theirs`.
  Index bytes_from(Index own, Index theirs) const { return batch() * (theirs * there_ + own * back_); }
  /// Messages that a rank with queries receives.
  Index messages() const { return tensors_ * (ranks_ - 1); }
  /// Peak bytes of a rank with so many rows, what it has before the pass included.
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
  Index there_ = 0, back_ = 0;  ///< bytes of a row of queries, and of what comes back for it
  Index tensors_ = 0;           ///< that travel
};

}  // namespace annulus::strategies
