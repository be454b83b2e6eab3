// What a pass is for every rank: a value, made once, then added up (predict()), timed (simulation.hpp), printed and
// executed (forward_loop.hpp, backward_loop.hpp).
#pragma once

#include <map>

#include "annulus/strategies/gradients/gradient_sink.hpp"
#include "annulus/strategies/heads/head_groups.hpp"
#include "annulus/strategies/prediction.hpp"
#include "annulus/strategies/queries/query_costs.hpp"

namespace annulus::strategies {

/// How keys come and, in a backward pass, where the sums of their gradients go; the latter's plan may point to the
/// former's.
struct Plans {
  std::unique_ptr<KeyPlan> keys;
  std::unique_ptr<SumPlan> sums;  ///< none: a forward pass
};
/// Plans of rounds_of(problem) over a partition; neither is copied.
using MakePlans = std::function<Plans(const std::vector<Problem>& rounds, const pattern::Partition&)>;

/// What is exchanged before the steps of a pass, and back after them.
///   group        ranks of a group inside which rows are exchanged for heads (heads/head_groups.hpp): the plans are
///                those of the ranks of the same number in their groups; 0: no groups
///   all_queries  every rank gets all queries (queries/query_exchange.hpp): the plans are those of ranks that have them
struct RowExchange {
  int group = 0;
  bool all_queries = false;
};

class Schedule {
 public:
  Schedule(const MakePlans& make, Problem problem, pattern::Partition partition, const RowExchange& exchange = {});
  Schedule(const Schedule&) = delete;
  Schedule& operator=(const Schedule&) = delete;

  const Problem& problem() const { return problem_; }
  const pattern::Partition& partition() const { return partition_; }
  /// Rows of every rank's queries.
  const pattern::Partition& query_rows() const { return problem_.queries ? query_rows_ : partition_; }
  RowCounts row_counts(int rank) const {
    return {query_rows()[std::size_t(rank)].count(), partition_[std::size_t(rank)].count()};
  }
  /// Without an exchange: rounds, and what moves in them.
  const std::vector<Problem>& rounds() const { return rounds_; }
  const KeyPlan& keys() const { return *plans_.keys; }
  const SumPlan* sums() const { return plans_.sums.get(); }
  /// Blocks of batch entries in which a rank with so many rows makes its backward pass.
  Index backward_blocks(const RowCounts& rows) const;

  /// A rank's group, and the schedule of the ranks of its number across the groups; none without groups.
  bool has_groups() const { return group_ > 0; }
  /// The schedule of ranks that have all queries, where they are exchanged; none elsewhere.
  bool gathers_queries() const { return of_all_queries_ != nullptr; }
  const Schedule& of_all_queries() const { return *of_all_queries_; }
  QueryCosts query_costs() const;
  bool has_exchange() const { return has_groups() || gathers_queries(); }
  HeadGroup group_of(int rank) const { return {problem_, partition_, group_, rank}; }
  const Schedule& across(int rank) const;

  /// Kept triples that a rank computes with, batch entries included; where there are groups, of its rows.
  core::Count kept(int rank) const;
  /// What the pass costs a rank; in a backward pass memory counts a gradient of the LSE.
  Prediction predict(int rank) const;
  /// What predict() says of any rank's memory, at most, if no message is larger; where there are groups, of a rank of
  /// the fullest one. Costs as much as a few ranks do, however many there are.
  struct Most {
    Index memory = 0;
    Index window = 0;  ///< of these in windows
  };
  Most most(const LargestMessages& largest) const;
  /// Bytes that a rank receives from each rank in the pass; they add up to predict(rank).bytes_received.
  std::vector<Index> bytes_from(int rank) const;

 private:
  /// Predicts a backward pass without what it reads.
  Prediction predict_work(int rank) const;
  Most most_work(const LargestMessages& largest) const;
  Most most_of_groups(LargestMessages largest) const;
  /// Bytes of a rank with so many rows, and so many bytes of buffers, without what a backward pass reads; and of that.
  Index work_bytes(const RowCounts& rows, const QueryBlocks& blocks, Index buffers) const;
  Index input_bytes(const RowCounts& rows) const;
  /// The most that any rank has.
  RowCounts most_counts() const { return {pattern::most_rows(query_rows()), pattern::most_rows(partition_)}; }

  const MakePlans make_;
  const Problem problem_;
  const pattern::Partition partition_;
  const pattern::Partition query_rows_;  // empty where all rows are queries
  const int group_;
  std::vector<Problem> rounds_;
  Plans plans_;
  mutable std::map<int, std::unique_ptr<Schedule>> across_;  // by rank in the group
  std::unique_ptr<const Schedule> of_all_queries_;
};

}  // namespace annulus::strategies
