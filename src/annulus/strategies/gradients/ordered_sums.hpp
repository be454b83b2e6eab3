// Sums of a reproducible problem whose rows are spread over ranks: gradients have the same bits for every number of
// ranks.
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

#include <deque>

#include "annulus/strategies/gradients/gradient_sink.hpp"
#include "annulus/strategies/gradients/ordered_slice.hpp"
#include "annulus/strategies/keys/hop_keys.hpp"

namespace annulus::strategies {

/// Slices of every rank's rows, for messages that travel in this way.
Index ordered_slices(HopMode mode, std::size_t ranks);

/// Hops that bring each slice in a lane of its own. `make_lanes` has one lane.
HopPlan plan_sliced_hops(const MakeLanes& make_lanes, const Problem& round, const pattern::Partition& partition,
                         int rank, void* kv, Index slices);

/// The slices of a round: `keys.form(s, i)` is slice i of the keys of rank - s.
std::vector<OrderedSlice> ordered_slices_of(const Problem& round, const pattern::Partition& partition, int rank,
                                            std::size_t slices,
                                            const std::function<KeyBlock(std::size_t s, std::size_t i)>& form);

/// What the sums of all slices cost, beside K and V: bytes sent, received, and of buffers.
Prediction predict_sums(const Problem& round, const std::vector<OrderedSlice>& slices);

/// Lane i of the keys is slice i. Behind each slice of a step its sums leave, and those for the next step are asked
/// for. It cannot come to a halt: what a rank waits for before step s + 1 all leaves other ranks behind their step s.
class OrderedSums final : public GradientSink {
 public:
  OrderedSums(const Setting& setting, const KeySource& keys, HopMode mode);

  void begin(const Problem& round, const GradientBlock& own) override;
  std::size_t steps() const override { return setting_.partition.size(); }
  std::optional<GradientBlock> open(std::size_t s, std::size_t lane) override;
  void leave(std::size_t s, std::size_t lane) override;
  void progress() override;
  void settle(std::size_t lane) override { arrive(lane, steps() - 1); }
  void finish() override;

 private:
  /// Ends the messages that step s left behind in a lane.
  void arrive(std::size_t lane, std::size_t s);

  const Setting setting_;
  const KeySource& keys_;
  const HopMode mode_;
  GradientBlock own_;
  std::vector<OrderedSlice> slices_;
  std::deque<SliceSums> sums_;
  std::deque<comm::Exchange> exchanges_;  // behind the sums: when an error unwinds, messages end before their buffers
};

/// K and V in hops, of one lane, and sums in order.
BackwardPass hops_in_order(HopMode mode, const MakeLanes& make_lanes);
/// K and V gathered beforehand; only the sums move from rank to rank.
BackwardPass gathered_in_order();

}  // namespace annulus::strategies
