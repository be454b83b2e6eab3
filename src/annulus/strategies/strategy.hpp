// A way to distribute attention: where rows live, what moves, when the kernel is called. One file and one registry line
// each.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "annulus/strategies/problem.hpp"

namespace annulus::strategies {

/// What a strategy will cost one rank.
struct Prediction {
  Index memory_bytes = 0;  ///< peak of tensors and buffers, as the memory ledger counts them
  Index bytes_sent = 0;
  Index bytes_received = 0;
  core::Count kept = 0;  ///< kept (query, key, head) triples, batch entries included
};

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

class Strategy {
 public:
  virtual ~Strategy() = default;

  /// As in the run file.
  virtual std::string_view name() const = 0;
  /// One line for `annulus list`.
  virtual std::string_view description() const = 0;
  /// Why it cannot run with this MPI library; empty: it can. It can be planned for all the same.
  virtual std::string unavailable() const { return ""; }
  /// Which rank holds which rows.
  virtual pattern::Partition partition(const Problem& problem, int ranks) const = 0;
  /// Why it cannot give a reproducible problem (passes()) the same bits for every number of ranks; empty: it can.
  virtual std::string not_reproducible(const Problem& problem, int ranks) const = 0;
  /// The same of its gradients, of a strategy that can: sums of dk and dv that ranks make apart and then add do not
  /// come to the same bits, sums that go from rank to rank do (ordered_backward.hpp).
  virtual std::string not_reproducible_gradients(const Problem& problem, int ranks) const = 0;
  /// What moves, for the cost model.
  virtual CommunicationShape communication(const Problem&, int /*ranks*/) const { return {}; }
  virtual Prediction predict(const Problem& problem, const pattern::Partition& partition, int rank) const = 0;
  /// Throws the same Error on every rank where the ranks that are there lack something that it needs of them;
  /// collective, before anything is read or computed.
  virtual void check_ranks(const Problem&, const pattern::Partition&, const comm::Communicator&) const {}
  /// Computes out, lse and, where the problem asks for gradients, normalizers of this rank's rows; collective. q and
  /// kv are only read. Throws core::Error.
  virtual core::RankMetrics forward(const Problem& problem, const pattern::Partition& partition,
                                    const comm::Communicator& comm, Tensors& tensors,
                                    const Progress& progress) const = 0;

  /// What backward() costs one rank; memory with a gradient of the LSE.
  virtual Prediction predict_backward(const Problem& problem, const pattern::Partition& partition, int rank) const = 0;
  /// Makes dq and dkv of this rank's rows from q, kv, out, normalizers, dout and, where it is given, dlse, all of which
  /// are only read; collective. Gradients are summed, and travel between ranks, in the problem's precision; the same
  /// run twice gives the same bits unless the strategy says otherwise. In the metrics hop h counts the K/V rows that it
  /// brings and the gradients of these rows, kept triples as in forward(). Throws core::Error.
  virtual core::RankMetrics backward(const Problem& problem, const pattern::Partition& partition,
                                     const comm::Communicator& comm, Tensors& tensors,
                                     const Progress& progress) const = 0;
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
