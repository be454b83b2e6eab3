// A way to distribute attention: where rows live, how keys come and where sums of gradients go. One file in named/ and
// one registry line each.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "annulus/strategies/gradients/gradient_sink.hpp"

namespace annulus::strategies {

/// What moves between ranks; the cost model has a closed form for each.
///   none            nothing                        gather      all of K and V to every rank, in one collective
///   ring            neighbour to neighbour          both_ways   neighbours on both sides
///   direct          from each owner what is read    heads       all-to-all, heads against rows
///   window          the same, read by its reader out of a copy of the owner's rows
///   heads_in_ring   heads inside groups of `group` ranks, a ring across the groups
///   unknown         only predict() tells: such a strategy is planned up to some dozens of ranks
enum class Movement { none, gather, ring, both_ways, direct, window, heads, heads_in_ring, unknown };

struct CommunicationShape {
  Movement movement = Movement::unknown;
  bool overlapped = true;  ///< messages travel while the kernel works
  int group = 1;           ///< ranks of a group
};

/// Ranks of a group that exchanges rows for heads, a divisor of the number of ranks.
using GroupSize = int (*)(const Problem&, int ranks);

class Strategy;
/// A strategy as its file writes it down.
struct StrategyEntry {
  std::string_view name;         ///< as in the run file
  std::string_view description;  ///< one line for `annulus list`
  /// Which rank holds which rows.
  std::function<pattern::Partition(const Problem&, int ranks)> partition;
  /// What moves, for the cost model.
  CommunicationShape communication;
  ForwardPass forward;
  BackwardPass backward;
  /// The backward pass of a reproducible problem. Without one the same as `backward`.
  std::optional<BackwardPass> backward_in_order = std::nullopt;
  /// Why it cannot give a reproducible problem (passes()) the same bits for every number of ranks; empty: it can.
  std::function<std::string(const Problem&, int ranks)> why_not_reproducible;
  /// The same of its gradients, of a strategy that can: sums of dk and dv that ranks make apart and then add do not
  /// come to the same bits, sums that go from rank to rank do (gradients/ordered_sums.hpp).
  std::function<std::string(const Problem&, int ranks)> why_no_reproducible_gradients;
  /// Inside groups of ranks rows are exchanged for heads, and the passes run across the groups; none: no such groups.
  GroupSize group_size = nullptr;
  /// Why it cannot run with this MPI library; empty: it can. It can be planned for all the same.
  std::string (*why_unavailable)() = [] { return std::string(); };
  /// See Strategy::check_ranks(); none: it needs nothing.
  void (*check_ranks)(const Problem&, const pattern::Partition&, const comm::Communicator&) = nullptr;
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

  Prediction predict(const Problem& problem, const pattern::Partition& partition, int rank) const;
  /// Throws the same Error on every rank where the ranks that are there lack something that it needs of them;
  /// collective, before anything is read or computed.
  void check_ranks(const Problem& problem, const pattern::Partition& partition, const comm::Communicator& comm) const {
    if (entry_.check_ranks) entry_.check_ranks(problem, partition, comm);
  }
  /// Computes out, lse and, where the problem asks for gradients, normalizers of this rank's rows; collective. q and
  /// kv are only read. Throws core::Error.
  core::RankMetrics forward(const Problem& problem, const pattern::Partition& partition, const comm::Communicator& comm,
                            Tensors& tensors, const Progress& progress) const;

  /// What backward() costs one rank; memory with a gradient of the LSE.
  Prediction predict_backward(const Problem& problem, const pattern::Partition& partition, int rank) const;
  /// Makes dq and dkv of this rank's rows from q, kv, out, normalizers, dout and, where it is given, dlse, all of which
  /// are only read; collective. Gradients are summed, and travel between ranks, in the problem's precision; the same
  /// run twice gives the same bits unless the strategy says otherwise. In the metrics hop h counts the K/V rows that it
  /// brings and the gradients of these rows, kept triples as in forward(). Throws core::Error.
  core::RankMetrics backward(const Problem& problem, const pattern::Partition& partition,
                             const comm::Communicator& comm, Tensors& tensors, const Progress& progress) const;

 private:
  const BackwardPass& backward_pass(const Problem& problem) const {
    return problem.reproducible && entry_.backward_in_order ? *entry_.backward_in_order : entry_.backward;
  }

  StrategyEntry entry_;
};

/// Every strategy, in the order of `annulus list`.
const std::vector<std::unique_ptr<Strategy>>& registry();

/// Those that this MPI library can run.
std::vector<const Strategy*> available();

/// Names of those that can be reproducible, or their gradients, too, with a partition that suits them.
std::vector<std::string_view> reproducible_strategies(bool gradients);
/// The same for one problem.
std::vector<std::string_view> reproducible_strategies(const Problem& problem, int ranks);

/// Why a strategy cannot give a reproducible problem, gradients included where they are asked for, the same bits for
/// every number of ranks; empty: it can, or nobody asks.
std::string disorder(const Strategy& strategy, const Problem& problem, int ranks);

/// The strategy of this name, nullptr when there is none ("auto" is none: see choose.hpp).
const Strategy* find(std::string_view name);

}  // namespace annulus::strategies
