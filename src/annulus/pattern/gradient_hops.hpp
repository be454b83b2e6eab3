// The way of the gradients of K and V rows that hops (plan.hpp) brought to other ranks: back to their owners.
//
// A rank that has received rows computes what its queries give their gradients, in a block of the same form as the
// rows. At the next hop but one, when that block is complete, its rows leave: onward, to be added to the same rows'
// block on the next rank, or home. Every number that was added anywhere comes home exactly once, and in an order that
// the plan alone decides.
#pragma once

#include <vector>

#include "annulus/pattern/plan.hpp"

namespace annulus::pattern {

/// What becomes of the gradients of the rows that hop d brought. PackedRows without rows mean no message.
struct GradientHop {
  int next = 0;         ///< gets `onward`
  int owner = 0;        ///< of the rows: gets `home`
  int previous = 0;     ///< sends `arriving`
  int reader = 0;       ///< of this rank's rows at hop d: sends `returned`
  PackedRows onward;    ///< taken out of the block before `home` leaves; lies inside the next rank's rows of hop d + 1
  PackedRows home;      ///< whole parts of the block; rows that went onward are zero in them
  PackedRows arriving;  ///< sums for the rows that hop d + 1 brings here
  PackedRows returned;  ///< sums for this rank's own rows
};

/// What leaves a block of sums for the rows in `carried`, of which ranks up to here read `read`: parts of `next`, what
/// the next rank is brought of them, go onward; the others go home. A head nobody has read yet has no sums.
PackedRows onward_sums(const PackedRows& next, const PackedRows& read);
PackedRows home_sums(const PackedRows& carried, const PackedRows& next, const PackedRows& read);

/// Sums that are added up in one order whatever the number of ranks: they start at the owner, go up from neighbour to
/// neighbour as far as any rank reads them, and from there home. They are moved, never added: rows that hop d carries
/// lie in one place, on the rank at distance d from their owner. For a layout of one pair, and a contiguous partition
/// `readers`, of whose rows `owners` are a part; layout and owners are not copied.
///
/// Worked example: P = 3, dense, not causal. Rank 1's rows go with its own sums to rank 2 (step 0), with those of both
/// to rank 0 (step 1), and home (step 2): one message more than K and V needed. Causal: from rank 2 home.
class OrderedRoute {
 public:
  OrderedRoute(const Layout& layout, const Partition& readers, const Partition& owners);

  /// Step s = 0 ... P - 1, in which a rank works on the rows of rank - s: `arriving` are the sums of the rows of step
  /// s + 1.
  GradientHop step(int rank, int s) const;
  /// (row, key/value head) pairs of a rank's rows whose sums leave it and come home: those that any other rank reads.
  Index home_rows(int rank) const;

 private:
  const Layout& layout_;
  const Partition& owners_;
  std::vector<Index> begins_;  // of the readers' rows, and the end of the last one's
};

}  // namespace annulus::pattern
