// A strategy is a way to distribute attention. It says which rank has which rows, how each rank gets its keys, and
// where sums of gradients go. Each strategy has one file in named/ and is listed once in the registry.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "annulus/strategies/passes.hpp"

namespace annulus::strategies {

/// Says what moves between ranks. The cost model has closed forms for the costs of all patterns but the last.
///   none           nothing moves
///   gather         all of K and V go to every rank
///   ring           K and V go from neighbour to neighbour
///   both_ways      K and V go from neighbour to neighbour, in both directions at once
///   direct         the rows that a rank needs go straight from their owner to this rank
///   window         each rank reads the rows that it needs out of their owner's memory (MPI RMA)
///   heads          ranks exchange rows for heads, in an all-to-all (heads/head_exchange.hpp)
///   heads_in_ring  as `heads`, but inside groups of `group` ranks; K and V go round a ring of the groups
///   queries        all queries go to every rank, then partial results go to the queries' owners; both in collectives
///   store          nothing moves; ranks read rows from a store, block after block (costs: planner/stream_cut.hpp)
enum class CommunicationPattern { none, gather, ring, both_ways, direct, window, heads, heads_in_ring, queries, store };

struct CommunicationShape {
  CommunicationPattern pattern = CommunicationPattern::none;
  bool overlapped = true;  ///< true: messages travel while the kernel works; false: the kernel waits for them
  int group = 1;           ///< number of ranks in a group
};

/// Returns how many ranks each group has, a divisor of `ranks`. Ranks of a group exchange rows for heads.
using GroupSize = int (*)(const Problem&, int ranks);

/// A strategy as its file in named/ describes it.
struct StrategyEntry {
  std::string_view name;         ///< as in the run file
  std::string_view description;  ///< one line for `annulus list`
  /// Returns which rank holds which rows.
  std::function<pattern::Partition(const Problem&, int ranks)> partition;
  /// What moves, for the cost model.
  CommunicationShape communication;
  MakePlans forward;
  MakePlans backward;
  /// The backward pass of a reproducible problem; nullptr: the same as `backward`.
  MakePlans backward_in_order = nullptr;
  /// Returns why a reproducible problem (rounds_of()) may get other bits on another number of ranks; empty if not.
  std::function<std::string(const Problem&, int ranks)> why_not_reproducible;
  /// The same for gradients and Statistics::received. If each rank makes a sum for a key row and the row's owner adds
  /// these sums, bits depend on the number of ranks. They do not depend on this number if one sum goes from rank to
  /// rank and each rank adds its terms (gradients/ordered_sums.hpp).
  std::function<std::string(const Problem&, int ranks)> why_no_reproducible_gradients;
  /// Returns the size of the groups in which ranks exchange rows for heads. The plans then say what moves between
  /// ranks of different groups. nullptr: no groups.
  GroupSize group_size = nullptr;
  /// True: every rank gets all queries before a pass, and returns partial results to the queries' owners after it.
  bool all_queries = false;
  /// Returns why the strategy cannot run with this MPI library; empty if it can. Planning is always possible.
  std::string (*why_unavailable)() = [] { return std::string(); };
};

/// A strategy of the registry: its StrategyEntry, and functions that all strategies share.
class Strategy {
 public:
  explicit Strategy(StrategyEntry entry) : entry_(std::move(entry)) {}

  const StrategyEntry& entry() const { return entry_; }
  std::string_view name() const { return entry_.name; }
  std::string_view description() const { return entry_.description; }
  std::string unavailable() const { return entry_.why_unavailable(); }
  pattern::Partition partition(const Problem& problem, int ranks) const { return entry_.partition(problem, ranks); }
  std::string not_reproducible(const Problem& problem, int ranks) const {
    return entry_.why_not_reproducible(problem, ranks);
  }
  std::string not_reproducible_gradients(const Problem& problem, int ranks) const {
    return entry_.why_no_reproducible_gradients(problem, ranks);
  }
  CommunicationShape communication(const Problem& problem, int ranks) const;
  /// True for `stream`: each element of the partition is then a block of rows, which BlockPasses computes on its own.
  bool reads_store() const { return entry_.communication.pattern == CommunicationPattern::store; }

  /// Return the schedule of a pass, which says what each rank does. Call this once and use the schedule for all ranks.
  std::unique_ptr<const Schedule> forward_schedule(const Problem& problem, const pattern::Partition& partition) const;
  std::unique_ptr<const Schedule> backward_schedule(const Problem& problem, const pattern::Partition& partition) const;
  /// Returns the schedule of the statistics pass (Statistics::need_pass()). Rows and sums move as in the backward
  /// pass, but the sums are Sums::received.
  std::unique_ptr<const Schedule> statistics_schedule(const Problem& problem,
                                                      const pattern::Partition& partition) const;

  // Each of these functions makes a schedule and uses it once, to predict what a pass costs a rank or to run the pass.
  Prediction predict(const Problem& problem, const pattern::Partition& partition, int rank) const {
    return forward_schedule(problem, partition)->predict(rank);
  }
  Prediction predict_backward(const Problem& problem, const pattern::Partition& partition, int rank) const {
    return backward_schedule(problem, partition)->predict(rank);
  }
  core::RankMetrics forward(const Problem& problem, const pattern::Partition& partition, const comm::Communicator& comm,
                            Tensors& tensors, const Progress& progress) const {
    return run_forward_pass(*forward_schedule(problem, partition), comm, tensors, progress);
  }
  core::RankMetrics backward(const Problem& problem, const pattern::Partition& partition,
                             const comm::Communicator& comm, Tensors& tensors, const Progress& progress) const {
    return run_backward_pass(*backward_schedule(problem, partition), comm, tensors, progress);
  }
  /// Throws the same Error on every rank if the strategy's MPI windows do not fit into memory (passes.hpp); collective.
  void check_ranks(const Problem& problem, const pattern::Partition& partition, const comm::Communicator& comm) const;

 private:
  std::unique_ptr<const Schedule> schedule(const MakePlans& make, const Problem& problem,
                                           const pattern::Partition& partition) const;

  StrategyEntry entry_;
};

/// Every strategy, in the order of `annulus list`.
const std::vector<std::unique_ptr<Strategy>>& registry();

/// The strategies that this MPI library can run and that use the ranks of a communicator (so not `stream`).
std::vector<const Strategy*> available();

/// Names of the available() strategies whose out and lse (with `gradients`: also the gradients) are reproducible with
/// at least one partition.
std::vector<std::string_view> reproducible_strategies(bool gradients);
/// Names of the available() strategies that are reproducible for this problem, with its partition, on this many ranks.
std::vector<std::string_view> reproducible_strategies(const Problem& problem, int ranks);

/// Returns why products in the problem's precision cannot be added in one order for every partition; empty if they
/// can. For example "matrix units add products of TF32 in an order of their own: segments of 1000 rows ...".
/// `why_no_units`: why this machine has no matrix units that add these numbers granule by granule
/// (kernels::why_no_granules()); empty if it has them.
std::string why_no_fixed_order(const Problem& problem, const std::string& why_no_units = "");

/// Returns why a strategy cannot give the results of a reproducible problem (gradients too, if wanted) the same bits
/// on every number of ranks; empty if it can, or if the problem need not be reproducible.
std::string why_not_reproducible(const Strategy& strategy, const Problem& problem, int ranks);

/// Returns the strategy of this name; nullptr if no strategy has this name. "auto" is not a strategy, but chooses one
/// (planner/choose.hpp).
const Strategy* find(std::string_view name);

}  // namespace annulus::strategies
