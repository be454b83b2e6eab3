// The way of the gradients of K and V rows that hops (plan.hpp) brought to other ranks: back to their owners.
//
// A rank that has received rows computes what its queries give their gradients, in a block of the same form as the
// rows. At the next hop but one, when that block is complete, its rows leave: forward, to be added to the same rows'
// block on the next rank, or back to their owner. Every number that was added anywhere comes back exactly once, and in
// an order that the plan alone decides.
#pragma once

#include <vector>

#include "annulus/pattern/plan.hpp"
#include "annulus/pattern/shared_documents.hpp"

namespace annulus::pattern {

/// What becomes of the gradients of the rows that hop d brought. PackedRows without rows mean no message.
struct GradientHop {
  int next = 0;                ///< gets `send_forward`
  int owner = 0;               ///< of the rows: gets `send_back`
  int previous = 0;            ///< sends `receive_forward`
  int reader = 0;              ///< of this rank's rows at hop d: sends `receive_back`
  PackedRows send_forward;     ///< taken out of the block before `send_back`; inside the next rank's rows of hop d + 1
  PackedRows send_back;        ///< whole parts of the block; rows that went forward are zero in them
  PackedRows receive_forward;  ///< sums for the rows that hop d + 1 brings here
  PackedRows receive_back;     ///< sums for this rank's own rows
};

/// What leaves a block of sums for the rows in `carried`, of which ranks up to here read `read`: parts of `next`, what
/// the next rank is brought of them, go forward; the others go back. A head that no rank has read yet has no sums.
PackedRows sums_sent_forward(const PackedRows& next, const PackedRows& read);
PackedRows sums_sent_back(const PackedRows& carried, const PackedRows& next, const PackedRows& read);

/// Sums that are added up in one order whatever the number of ranks: they start at the owner, go up from neighbour to
/// neighbour as far as any rank reads them, and from there back. They are moved, never added: rows that hop d carries
/// lie in one place, on the rank at distance d from their owner. For a layout of one pair, and a partition `readers` in
/// which every document's rows follow one another from rank to rank (throws for others), of whose rows `owners` are a
/// part; layout and owners are not copied. Ranks compute with those of their rows that are queries of the layout.
///
/// Worked example: P = 3, dense, not causal. Rank 1's rows go with its own sums to rank 2 (step 0), with those of both
/// to rank 0 (step 1), and back (step 2): one message more than K and V needed. Causal: from rank 2 back.
class OrderedRoute {
 public:
  OrderedRoute(const Layout& layout, const Partition& readers, const Partition& owners);

  /// Step s = 0 ... P - 1, in which a rank works on the rows of rank - s: `receive_forward` are the sums of the
  /// rows of step s + 1.
  GradientHop step(int rank, int s) const;
  /// (row, key/value head) pairs of a rank's rows whose sums leave it and come back: those that any other rank reads.
  Index rows_sent_back(int rank) const;

 private:
  PackedRows pieces_carried(int owner, int d) const;
  StoredRows rows_from(int owner, int d) const;

  const Layout& layout_;
  const Partition& owners_;
  std::vector<SharedPiece> pieces_;                // of the readers
  std::vector<std::vector<std::size_t>> held_by_;  // [rank]: places of its pieces
};

}  // namespace annulus::pattern
