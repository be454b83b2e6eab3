// Makes the sums of a reproducible problem whose rows are spread over ranks, so that gradients have the same bits for
// every number of ranks.
//
// The order is the mirror image of the forward pass's order (problem.hpp, rounds_of()). Key row y of a comb of N rows
// adds the queries y, y + 1, ..., N - 1, then, if not causal, 0, ..., y - 1. For one query row it adds the query heads
// that read the key's K/V head, in ascending order. The same sums continue from pair to pair. A sum has two levels: the
// total, and the sum of the current block of queries (Problem::has_query_block_sums()). Both levels travel, so that a
// rank's rows may end inside a block. A row's sums start at the row's owner, which adds its queries from y on. Then the
// sums visit the ranks above the owner, then the ranks below it, from rank 0 on. Finally the owner adds its queries
// before y. For dq, query row x adds the keys x, x - 1, ..., 0, then N - 1, ..., x + 1.
// Worked example: 12 rows on 3 ranks: key row 5 on rank 1 adds the queries 5 6 7 | 8 9 10 11 | 0 1 2 3 | 4.
//
// A rank can start on a block of keys only when the rank below it is done with that block. So if messages overlap with
// work, every rank's rows are divided into two slices. The sums for one slice travel while the kernel works on the
// other slice. The slice with the higher rows comes first, because dq adds keys in descending order.
//
// With zigzag (causal only) the rows of a document go up through the ranks and back down. Each rank then has two parts,
// and keys and sums go from part to part instead of from rank to rank. Part v gets the keys of parts v - 1, v - 2, ...,
// 0. The sums of its rows go to parts v + 1, ..., 2 P - 1, and then return. Worked example: 12 rows on 2 ranks, rank 0
// has [0, 3) and [9, 12): key row 1 adds the queries 1 2 | 3 4 5 and 6 7 8 on rank 1 | 9 10 11 on rank 0.
#pragma once

#include <deque>

#include "annulus/strategies/gradients/gradient_sink.hpp"
#include "annulus/strategies/gradients/ordered_slice.hpp"
#include "annulus/strategies/keys/hop_plan.hpp"

namespace annulus::strategies {

/// Returns into how many slices every rank's rows are divided if messages travel in this mode.
Index ordered_slices(HopMode mode, std::size_t ranks);

/// One round. The sums have the same channels as the keys. When a rank has worked on one channel of a step, it sends
/// the sums of this channel's slice, and starts to receive the sums that the channel needs in the next step.
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
  /// Returns a number to add to the tag of a message to part `to_part`. It makes the tags of two messages between two
  /// ranks differ if they go to different parts of the receiver, or in different directions (forward, back).
  int kind(int to_part, bool back) const;
  std::size_t slice_of(std::size_t channel) const { return channel % routes_.size(); }
  Room room(const LargestMessages& largest) const;

 private:
  struct Route {
    Route(const KeyRound& keys, const pattern::Layout& layout, Index slices, Index i)
        : rows(pattern::nth_share_of_rows(keys.parts(), slices, i, keys.problem().grid())),
          route(layout, keys.parts(), rows) {}

    const pattern::Partition rows;
    const pattern::OrderedRoute route;
  };
  const KeyRound& keys_;
  const pattern::Layout layout_;
  std::deque<Route> routes_;  // a deque, because `route` points to `rows`, so a Route must not move
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

/// Ranks cannot deadlock, because each rank sends directly after its step s what another rank needs for its step s + 1.
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
  /// Waits for the sums that a channel receives after step s, but not for its sends, whose receiver may be busy.
  void arrive(std::size_t channel, std::size_t s);
  /// Waits for the sends of a channel after step s.
  void end_sends(std::size_t channel, std::size_t s);

  const PassContext context_;
  const OrderedSumPlan& plan_;
  const OrderedSumRound* round_ = nullptr;
  GradientBlock own_;
  std::deque<OrderedSlice> slices_;
  std::deque<SliceSums> sums_;
  std::deque<comm::Exchange> exchanges_;  // declared last, so that messages end before unwinding frees the sums
};

/// Makes plans in which K and V travel in hops of one direction, and sums are added in one fixed order.
MakePlans hops_in_order(HopMode mode, const Direction& direction);
/// The same, but K and V are gathered first, so that only sums move from rank to rank.
MakePlans gathered_in_order();

}  // namespace annulus::strategies
