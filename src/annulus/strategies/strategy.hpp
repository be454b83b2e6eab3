// A way to distribute attention: where rows live, how keys come and where sums of gradients go. One file in named/ and
// one registry line each.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "annulus/strategies/passes.hpp"

namespace annulus::strategies {

/// What moves between ranks; the cost model has a closed form for each.
///   none            nothing                        gather      all of K and V to every rank, in one collective
///   ring            neighbour to neighbour          both_ways   neighbours on both sides
///   direct          from each owner what is read    heads       all-to-all, heads against rows
///   window          the same, read by its reader out of a copy of the owner's rows
///   heads_in_ring   heads inside groups of `group` ranks, a ring across the groups
///   queries         all queries to every rank, what its keys give them back home, both at once
///   store           nothing between ranks: each reads rows out of a store, block after block (store/block_passes.hpp)
///   unknown         only predict() tells: such a strategy is planned up to some dozens of ranks
enum class CommunicationPattern {
  none,
  gather,
  ring,
  both_ways,
  direct,
  window,
  heads,
  heads_in_ring,
  queries,
  store,
  unknown
};

struct CommunicationShape {
  CommunicationPattern pattern = CommunicationPattern::unknown;
  bool overlapped = true;  ///< messages travel while the kernel works
  int group = 1;           ///< ranks of a group
};

/// Ranks of a group that exchanges rows for heads, a divisor of the number of ranks.
using GroupSize = int (*)(const Problem&, int ranks);

/// A strategy as its file writes it down.
struct StrategyEntry {
  std::string_view name;         ///< as in the run file
  std::string_view description;  ///< one line for `annulus list`
  /// Which rank holds which rows.
  std::function<pattern::Partition(const Problem&, int ranks)> partition;
  /// What moves, for the cost model.
  CommunicationShape communication;
  MakePlans forward;
  MakePlans backward;
  /// The backward pass of a reproducible problem. Without one the same as `backward`.
  MakePlans backward_in_order = nullptr;
  /// Why it cannot give a reproducible problem (rounds_of()) the same bits for every number of ranks; empty: it can.
  std::function<std::string(const Problem&, int ranks)> why_not_reproducible;
  /// The same of its gradients, of a strategy that can: sums of dk and dv that ranks make apart and then add do not
  /// come to the same bits, sums that go from rank to rank do (gradients/ordered_sums.hpp).
  std::function<std::string(const Problem&, int ranks)> why_no_reproducible_gradients;
  /// Inside groups of ranks rows are exchanged for heads, and the passes run across the groups; none: no such groups.
  GroupSize group_size = nullptr;
  /// Every rank gets all queries before the passes, and what its keys give them goes home after these.
  bool all_queries = false;
  /// Why it cannot run with this MPI library; empty: it can. It can be planned for all the same.
  std::string (*why_unavailable)() = [] { return std::string(); };
};

/// An entry of the registry, with what all strategies have in common.
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
  /// Its partition is of blocks of rows, which BlockPasses computes one by one.
  bool reads_store() const { return entry_.communication.pattern == CommunicationPattern::store; }

  /// What a pass is for every rank; make it once.
  std::unique_ptr<const Schedule> forward_schedule(const Problem& problem, const pattern::Partition& partition) const;
  std::unique_ptr<const Schedule> backward_schedule(const Problem& problem, const pattern::Partition& partition) const;
  /// Schedules the pass that makes what Statistics::need_pass() says; it goes the way of the backward pass with other
  /// sums.
  std::unique_ptr<const Schedule> statistics_schedule(const Problem& problem,
                                                      const pattern::Partition& partition) const;

  // The same made for one use.
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
  void check_ranks(const Problem& problem, const pattern::Partition& partition, const comm::Communicator& comm) const;

 private:
  std::unique_ptr<const Schedule> schedule(const MakePlans& make, const Problem& problem,
                                           const pattern::Partition& partition) const;

  StrategyEntry entry_;
};

/// Every strategy, in the order of `annulus list`.
const std::vector<std::unique_ptr<Strategy>>& registry();

/// Those that spread a problem over the ranks of a communicator, and that this MPI library can run.
std::vector<const Strategy*> available();

/// Names of those that can be reproducible, or their gradients, too, with a partition that suits them.
std::vector<std::string_view> reproducible_strategies(bool gradients);
/// The same for one problem.
std::vector<std::string_view> reproducible_strategies(const Problem& problem, int ranks);

/// Why products of this precision cannot be added in an order that is the same for every cut; empty: they can.
/// "matrix units add products of TF32 in an order of their own: segments of 1000 rows ...". `why_no_units`: what of the
/// machine or of the numbers is against it, if anything (kernels::why_no_granules()).
std::string why_no_fixed_order(const Problem& problem, const std::string& why_no_units = "");

/// Why a strategy cannot give a reproducible problem, gradients included where they are asked for, the same bits for
/// every number of ranks; empty: it can, or nobody asks.
std::string why_not_reproducible(const Strategy& strategy, const Problem& problem, int ranks);

/// The strategy of this name, nullptr when there is none ("auto" is none: see choose.hpp).
const Strategy* find(std::string_view name);

}  // namespace annulus::strategies
