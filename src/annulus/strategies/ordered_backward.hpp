// The backward pass of a reproducible problem whose rows are spread over ranks: gradients have the same bits for every
// number of ranks.
//
// The order is the mirror image of the forward's (problem.hpp, passes()). Key row y of a comb of N rows adds queries y,
// y + 1, ..., N - 1, then 0, ..., y - 1, the heads of its group ascending inside a query row; its sums go on from pair
// to pair. So they start at the owner, which has queries >= y first, visit the ranks above, then those below from rank
// 0 on, and come home for the owner's queries < y. Query row x adds keys x, x - 1, ..., 0, then N - 1, ..., x + 1.
// Worked example: 12 rows on 3 ranks, row 5 on rank 1 takes in queries 5 6 7 | 8 9 10 11 | 0 1 2 3 | 4.
//
// A rank can start on a block only when the rank below is done with it. So every rank's rows are worked on in two
// slices, higher rows first (the order of keys asks for that): the sums of one travel while the kernel works on the
// other.
#pragma once

#include "annulus/strategies/hop_loop.hpp"
#include "annulus/strategies/ordered_sums.hpp"

namespace annulus::strategies {

/// K and V for one rank in one pass, step by step: at step s those of rank - s, the own ones at s = 0.
class OrderedKeys {
 public:
  virtual ~OrderedKeys() = default;
  /// Brings the blocks of step s + 1 while the kernel works on those of step s, where messages are overlapped.
  virtual void start(std::size_t s, core::RankMetrics& metrics) = 0;
  virtual void progress() = 0;
  virtual void complete(std::size_t s, core::RankMetrics& metrics) = 0;
  /// Slice `i` of the block of step s > 0.
  virtual KeyBlock block(std::size_t i, std::size_t s) const = 0;
};

/// Slices of every rank's rows, for messages that travel in this way.
Index ordered_slices(HopMode mode, std::size_t ranks);

/// The own rows in slice `i` of `slices`, as keys.
KeyBlock own_slice(void* kv, const pattern::Partition& partition, int rank, Index slices, Index i);

/// Adds one pass to `computation`, whose passes(problem) it is; no sums are under way afterwards. Sums are computed in
/// order, and sent, before those of the next step can be: where the kernel takes less time than they, ranks wait.
void backward_in_order(const Problem& pass, const std::vector<OrderedSlice>& slices, OrderedKeys& keys, HopMode mode,
                       const comm::Communicator& comm, BackwardComputation& computation, core::RankMetrics& metrics);

/// What the sums of all slices cost, beside K and V: bytes sent, received, and of buffers.
Prediction predict_sums(const Problem& pass, const std::vector<OrderedSlice>& slices);

/// The same for strategies that move K and V in hops, one lane of them, and all passes.
Prediction predict_hops_in_order(const Problem& problem, const pattern::Partition& partition, const MakeLanes& lanes,
                                 HopMode mode, int rank);
void backward_hops_in_order(const Problem& problem, const pattern::Partition& partition, const MakeLanes& lanes,
                            HopMode mode, const comm::Communicator& comm, const Tensors& tensors,
                            BackwardComputation& computation, core::RankMetrics& metrics);

}  // namespace annulus::strategies
