// A schedule says what a pass does on every rank. One schedule serves to predict costs (predict()), to print what a
// rank will do, and to run the pass (forward_loop.hpp, backward_loop.hpp).
#pragma once

#include <map>

#include "annulus/strategies/gradients/gradient_sink.hpp"
#include "annulus/strategies/heads/head_groups.hpp"
#include "annulus/strategies/prediction.hpp"
#include "annulus/strategies/queries/query_costs.hpp"

namespace annulus::strategies {

/// The plans of a pass: how each rank gets its keys and, if the pass makes sums for key rows, where these sums go. The
/// plan of the sums may point to the plan of the keys.
struct Plans {
  std::unique_ptr<KeyPlan> keys;
  std::unique_ptr<SumPlan> sums;  ///< null: a forward pass
};
/// Makes the plans of rounds_of(problem) for a partition. The plans copy neither rounds nor partition, so both must
/// outlive them.
using MakePlans = std::function<Plans(const std::vector<Problem>& rounds, const pattern::Partition&)>;

/// Says which exchange comes before the steps of a pass, if any. If one comes, a second exchange after the steps
/// returns the results.
///   group        number of ranks in a group; they exchange rows for heads (heads/head_groups.hpp). The plans are then
///                for ranks that have the same number in their groups. 0: no groups
///   all_queries  every rank gets all queries (queries/query_exchange.hpp). The plans are then for ranks that have all
///                queries
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
  const pattern::Partition& query_rows() const { return problem_.queries ? query_rows_ : partition_; }
  RowCounts row_counts(int rank) const {
    return {query_rows()[std::size_t(rank)].count(), partition_[std::size_t(rank)].count()};
  }
  /// Only for a schedule without an exchange (has_exchange()): its rounds, and what moves in them.
  const std::vector<Problem>& rounds() const { return rounds_; }
  const KeyPlan& keys() const { return *plans_.keys; }
  const SumPlan* sums() const { return plans_.sums.get(); }
  /// Returns into how many blocks of batch entries the backward pass of a rank with this many rows is divided.
  Index backward_blocks(const RowCounts& rows) const;

  /// True if ranks exchange rows for heads inside groups.
  bool has_groups() const { return group_ > 0; }
  /// True if all queries go to every rank. If so, of_all_queries() is the schedule of ranks that have all queries, and
  /// query_costs() has the costs of the pass.
  bool gathers_queries() const { return of_all_queries_ != nullptr; }
  const Schedule& of_all_queries() const { return *of_all_queries_; }
  QueryCosts query_costs() const;
  bool has_exchange() const { return has_groups() || gathers_queries(); }
  /// If there are groups: group_of() is the group of `rank`; across() is the schedule of the ranks that have the same
  /// number in their groups as `rank`.
  HeadGroup group_of(int rank) const { return {problem_, partition_, group_, rank}; }
  const Schedule& across(int rank) const;
  /// Kept triples that a rank computes, batch entries included; with groups: those of its own queries and all heads.
  core::Count kept(int rank) const;
  /// Returns what the pass costs a rank. The memory of a backward pass includes dlse, even if there is none.
  Prediction predict(int rank) const;
  /// most() returns an upper bound of the memory that predict() returns for any rank (with groups: for any rank of the
  /// fullest groups), if no message is larger than `largest`. For any number of ranks, most() takes only as long as a
  /// few calls of predict().
  struct Most {
    Index memory = 0;
    Index window = 0;  ///< bytes of `memory` that are in MPI windows
  };
  Most most(const LargestMessages& largest) const;
  /// Bytes that a rank receives in the pass, for each sender; they add up to predict(rank).bytes_received.
  std::vector<Index> bytes_from(int rank) const;

 private:
  /// predict() for a schedule without an exchange; the memory does not include a backward pass's inputs.
  Prediction predict_work(int rank) const;
  Most most_work(const LargestMessages& largest) const;
  Most most_of_groups(LargestMessages largest) const;
  /// work_bytes(): peak bytes with `buffers` bytes of buffers, without the inputs of a backward pass. input_bytes():
  /// bytes of these inputs.
  Index work_bytes(const RowCounts& rows, const QueryBlocks& blocks, Index buffers) const;
  Index input_bytes(const RowCounts& rows) const;
  /// The largest number of query rows, and the largest number of key rows, that any rank has.
  RowCounts most_counts() const { return {pattern::most_rows(query_rows()), pattern::most_rows(partition_)}; }

  const MakePlans make_;
  const Problem problem_;
  const pattern::Partition partition_;
  const pattern::Partition query_rows_;  // empty if all rows are queries
  const int group_;
  std::vector<Problem> rounds_;
  Plans plans_;
  mutable std::map<int, std::unique_ptr<Schedule>> across_;  // by the rank's number in its group
  std::unique_ptr<const Schedule> of_all_queries_;
};

}  // namespace annulus::strategies
