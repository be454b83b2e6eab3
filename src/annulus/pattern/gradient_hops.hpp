// Hops (hops.hpp) bring K and V rows to other ranks. This file plans how the gradients of these rows travel back to the
// rows' owners.
//
// A rank that has received rows computes what its queries add to the gradients of these rows, in a block with the same
// layout as the received rows. In the step after, the block's sums go back to the rows' owner, or forward to the next
// rank, which adds them to its own sums. (With OrderedRoute the next rank adds its own terms to the received sums
// instead.) In
// the end the owner's sum has every rank's terms exactly once. The order of the additions depends only on the plan.
#pragma once

#include <vector>

#include "annulus/pattern/plan.hpp"
#include "annulus/pattern/shared_documents.hpp"

namespace annulus::pattern {

/// The messages for the gradients of the rows that hop d (the hop at distance d) brought. If PackedRows are empty, no
/// message is sent.
struct GradientHop {
  int next = 0;                ///< the rank that gets `send_forward`
  int owner = 0;               ///< the rank that owns the rows; it gets `send_back`
  int previous = 0;            ///< the rank that sends `receive_forward`
  int reader_of_own_rows = 0;  ///< the rank that read this rank's rows at hop d; it sends `receive_back`
  /// Sums for the rows that hop d + 1 brings to `next`. They leave this rank's block before `send_back` is collected.
  PackedRows send_forward;
  /// All other sums, for `owner`. A range is sent whole, with zeros for rows that went forward (OrderedRoute leaves
  /// these rows out).
  PackedRows send_back;
  PackedRows receive_forward;  ///< sums for the rows that hop d + 1 brings to this rank
  PackedRows receive_back;     ///< sums for this rank's own rows
};

/// Return which sums leave this rank's block. The block has sums for the rows in `carried`. Sums for the rows in
/// `next`, which the next rank receives, go forward. All other sums go back. `read` has the rows that this rank and the
/// ranks before it on the route read. There are no sums for a head of an interval in which none of these ranks reads a
/// row.
PackedRows sums_sent_forward(const PackedRows& next, const PackedRows& read);
PackedRows sums_sent_back(const PackedRows& carried, const PackedRows& next, const PackedRows& read);

/// The route of sums whose terms are added in the same order for every number of ranks. The sums start at the owner, go
/// up from rank to rank to the farthest rank that reads the rows, and return from there. Each rank on the way adds its
/// terms to the sums that it receives, so two sums of the same row never have to be added. `layout` has one pair.
/// `readers` has each rank's rows (zigzag: each part's); a rank computes with those of its rows that are queries. In
/// `readers` a document's rows must follow one another from rank to rank; otherwise step() throws. `owners` has those
/// rows of `readers` whose sums travel. layout and owners are not copied.
///
/// Worked example: P = 3, dense, not causal. The sums for rank 1's rows go from rank 1 to rank 2 (step 0), to rank 0
/// (step 1), and back to rank 1 (step 2): one message more than K and V need. If causal, the sums return from rank 2.
class OrderedRoute {
 public:
  OrderedRoute(const Layout& layout, const Partition& readers, const Partition& owners);

  /// Returns step s = 0 ... P - 1, in which `rank` works on the rows of rank - s. `receive_forward` has the sums for
  /// step s + 1. Some of them may belong to rows that `rank` does not read. `rank` only sends such sums on.
  GradientHop step(int rank, int s) const;
  /// Counts the (row, key/value head) pairs of a rank's own rows that other ranks read. The sums of these pairs leave
  /// the rank and return.
  Index rows_sent_back(int rank) const;

 private:
  PackedRows pieces_carried(int owner, int d) const;
  StoredRows rows_from(int owner, int d) const;

  const Layout& layout_;
  const Partition& owners_;
  std::vector<SharedPiece> pieces_;                // shared_pieces() of the rows in `readers`
  std::vector<std::vector<std::size_t>> held_by_;  // [rank]: its pieces, as indices in pieces_
};

}  // namespace annulus::pattern
