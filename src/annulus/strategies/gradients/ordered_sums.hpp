// Sums of a reproducible problem whose rows are spread over ranks: gradients have the same bits for every number of
// ranks.
//
// The order is the mirror image of the forward's (problem.hpp, rounds_of()). Key row y of a comb of N rows adds queries
// y, y + 1, ..., N - 1, then 0, ..., y - 1, the heads of its group ascending inside a query row; its sums go on from
// pair to pair. So they start at the owner, which has queries >= y first, visit the ranks above, then those below from
// rank 0 on, and come back for the owner's queries < y. Query row x adds keys x, x - 1, ..., 0, then N - 1, ..., x + 1.
// Worked example: 12 rows on 3 ranks, row 5 on rank 1 takes in queries 5 6 7 | 8 9 10 11 | 0 1 2 3 | 4.
//
// A rank can start on a block only when the rank below is done with it. So every rank's rows are worked on in two
// slices, higher rows first (the order of keys asks for that): the sums of one travel while the kernel works on the
// other.
//
// Rows that go up through the ranks and back down (zigzag; causal alone) are taken for 2 P ranks, parts, each of which
// has two: part v gets the keys of v - 1, v - 2, ..., 0, and the sums of its rows go to v + 1, ..., 2 P - 1 and come
// home, also where the next part is the same rank's. Worked example: 12 rows on 2 ranks, [0, 3) and [9, 12) on rank 0:
// row 1 takes in queries 1 2 | 3 4 5 and 6 7 8 of rank 1 | 9 10 11, from the sums' start to their end at home.
#pragma once

#include <deque>

#include "annulus/strategies/gradients/gradient_sink.hpp"
#include "annulus/strategies/gradients/ordered_slice.hpp"
#include "annulus/strategies/keys/hop_plan.hpp"

namespace annulus::strategies {

/// Slices of every rank's rows, for messages that travel in this way.
Index ordered_slices(HopMode mode, std::size_t ranks);

/// Channels are those of the keys. Behind each slice of a step its sums leave, and those for the next step are asked
/// for.
class OrderedSumRound final : public SumRound {
 public:
  explicit OrderedSumRound(const KeyRound& keys);

  std::size_t steps(int) const override { return keys_.parts().size(); }
  Transfers transfers(int rank, std::size_t s) const override;
  std::vector<Index> buffer_bytes(int rank) const override;

  std::size_t channels() const { return keys_.channels(); }
  bool has_parts() const { return keys_.parts().size() > keys_.partition().size(); }
  OrderedSlice slice(int rank, std::size_t channel) const {
    return {keys_, channel, routes_[slice_of(channel)].route, rank};
  }
  int rank_of(int part) const { return pattern::rank_of_part(part, keys_.ranks()); }
  /// Tells apart the messages of step s that one of a rank's parts sends `to_part` of another one: of each slice
  /// one goes forward and one back.
  int kind(int to_part, bool back) const;
  std::size_t slice_of(std::size_t channel) const { return channel % routes_.size(); }
  Room room(const LargestMessages& largest) const;

 private:
  struct Route {
    Route(const KeyRound& keys, const pattern::Layout& layout, Index slices, Index i)
        : rows(pattern::slice_of(keys.parts(), slices, i, keys.problem().grid())), route(layout, keys.parts(), rows) {}

    const pattern::Partition rows;
    const pattern::OrderedRoute route;
  };
  const KeyRound& keys_;
  const pattern::Layout layout_;
  std::deque<Route> routes_;  // a deque: routes point to the rows beside them
};

class OrderedSumPlan final : public SumPlan {
 public:
  OrderedSumPlan(const KeyPlan& keys, std::size_t rounds, HopMode mode) : mode_(mode) {
    for (std::size_t i = 0; i < rounds; ++i) rounds_.emplace_back(keys.round(i));
  }
  const OrderedSumRound& round(std::size_t i) const override { return rounds_[i]; }
  std::unique_ptr<GradientSink> sink(const PassContext& context) const override;
  Room room(const LargestMessages& largest) const override { return rounds_[0].room(largest); }
  HopMode mode() const { return mode_; }

 private:
  std::deque<OrderedSumRound> rounds_;
  HopMode mode_;
};

/// It cannot come to a halt: what a rank waits for before step s + 1 all leaves other ranks behind their step s.
class OrderedSums final : public GradientSink {
 public:
  OrderedSums(const PassContext& context, const OrderedSumPlan& plan) : context_(context), plan_(plan) {}

  void begin(std::size_t round, const GradientBlock& own) override;
  std::optional<GradientBlock> open(std::size_t s, std::size_t channel) override;
  void leave(std::size_t s, std::size_t channel) override;
  void progress() override;
  void settle(std::size_t channel) override;
  void finish() override;

 private:
  /// Returns when what comes in a channel behind step s is here. Not what leaves: the rank that gets it may be busy.
  void arrive(std::size_t channel, std::size_t s);
  /// The same of what left behind step s.
  void end_sends(std::size_t channel, std::size_t s);

  const PassContext context_;
  const OrderedSumPlan& plan_;
  const OrderedSumRound* round_ = nullptr;
  GradientBlock own_;
  std::deque<OrderedSlice> slices_;
  std::deque<SliceSums> sums_;
  std::deque<comm::Exchange> exchanges_;  // behind the sums: when an error unwinds, messages end before their buffers
};

/// K and V in hops of one direction, and sums in order.
MakePlans hops_in_order(HopMode mode, const Direction& direction);
/// K and V gathered beforehand; only the sums move from rank to rank.
MakePlans gathered_in_order();

}  // namespace annulus::strategies
