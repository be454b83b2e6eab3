// Groups of consecutive ranks that divide the heads among them. Inside a group, rows are exchanged for heads, so that
// every rank has all rows of its group for some of the heads.
#pragma once

#include "annulus/comm/alltoall.hpp"
#include "annulus/strategies/backward_computation.hpp"

namespace annulus::strategies {

/// Returns the rows of every group of `size` ranks; `size` divides the number of ranks.
pattern::Partition rows_of_groups(const pattern::Partition& partition, int size);

/// A group from the point of view of one of its ranks. Rank p has number p mod `size` in group p / `size`. Query heads
/// are divided evenly: the first ranks may get one head more; if there are more ranks than heads, the last ranks get
/// none. A K/V head goes to every rank whose query heads read it. Below, `own` means all heads of this rank's rows, and
/// `narrow` means only this rank's heads of the group's rows. Worked example: H = 5, Hkv = 1, 4 ranks in groups of 2:
/// ranks 0 and 2 have the query heads 0 1 2, ranks 1 and 3 the query heads 3 4; all have K/V head 0. Ranks 0 and 1 each
/// compute with the rows of ranks 0 and 1, ranks 2 and 3 with the rows of ranks 2 and 3.
class HeadGroup {
 public:
  /// `size` divides the number of ranks.
  HeadGroup(const Problem& whole, const pattern::Partition& partition, int size, int rank);

  int number() const { return number_; }  ///< the group's number
  int rank() const { return rank_; }      ///< this rank's number in the group
  /// The key rows of every group.
  const pattern::Partition& rows() const { return rows_; }
  /// The problem that this rank computes on the group's rows, with its own heads only.
  const Problem& narrow() const { return narrow_; }

  /// Bytes of take_heads() and return_heads() together: sent; received; received from each rank m of the group.
  Index bytes_sent() const;
  Index bytes_received() const;
  std::vector<Index> bytes_from() const;
  /// Query rows that this rank receives from other ranks of the group.
  Index rows_received() const;
  /// Peak bytes of the forward pass, if the work on the group's rows has a peak of `narrow_memory` bytes.
  Index memory(Index narrow_memory) const;

  /// Receives q and kv of the group's rows for this rank's heads; collective over the group.
  Tensors take_heads(const comm::Communicator& group, const Tensors& own) const;
  /// Makes own.out, own.lse and the pass's other results from `narrow`, the tensors of the group's rows; collective
  /// over the group.
  void return_heads(const comm::Communicator& group, const Tensors& narrow, Tensors& own) const;

  // The same costs for the pass that makes Problem::sums. For gradients q, kv, dout, normalizers and delta travel, and
  // after the pass dq and the sums for K/V rows. For statistics q, kv and normalizers travel, and after the pass the
  // lists of top rows and the sums for K/V rows.
  Index backward_bytes_sent() const;
  Index backward_bytes_received() const;
  std::vector<Index> backward_bytes_from() const;
  /// Peak bytes of such a pass, if the work on the group's rows, without its inputs, has a peak of `narrow_work` bytes.
  Index backward_memory(Index narrow_work) const;

  /// Receives what the backward pass on the group's rows reads: q, kv, dout, normalizers and delta.
  Tensors take_backward_heads(const comm::Communicator& group, const Tensors& own) const;
  /// Receives what the statistics pass reads: q, kv and normalizers.
  Tensors take_statistics_heads(const comm::Communicator& group, const Tensors& own) const;
  /// Makes own.top_rows and top_weights, if the problem asks for them.
  void return_lists(const comm::Communicator& group, const Tensors& narrow, Tensors& own) const;
  /// Makes own.dq from dq of the group's rows.
  void return_query_gradients(const comm::Communicator& group, const Tensors& narrow, Tensors& own) const;
  /// Returns the sums for the rank's own K/V rows and all heads. Frees `narrow`, the sums for the group's rows and this
  /// rank's heads. If several ranks read a K/V head, their sums are added in the order of the ranks.
  core::Buffer return_key_sums(const comm::Communicator& group, core::Buffer narrow) const;

 private:
  /// A tensor in its two forms, `own` (parts, own rows, all heads) and `narrow` (parts, group's rows, own heads). For
  /// each rank m of the group, one piece of each form goes to m or comes from m: heads_of[m] has m's heads of `own`,
  /// rows_of[m] has m's rows of `narrow`.
  struct TwoForms {
    comm::RowBlock own, narrow;  ///< without data (null)
    std::vector<comm::Piece> heads_of, rows_of;
  };
  struct GroupRows {
    pattern::Partition members;    ///< rows of each rank of the group
    pattern::StoredRows together;  ///< rows of all ranks of the group
  };
  TwoForms forms(Index parts, Index unit_bytes, Index all_heads, const std::vector<core::Interval>& heads,
                 const GroupRows& rows) const;
  /// The tensors that return after the forward pass.
  std::vector<const TwoForms*> outputs() const;
  /// The tensors that travel before the pass that makes sums, and those that return after it.
  std::vector<const TwoForms*> sum_inputs() const;
  std::vector<const TwoForms*> sum_outputs() const;
  Index statistics_memory(Index narrow_work) const;
  /// Adds the bytes of the pieces to bytes[m] for each rank m; others() returns their sum. This rank's own piece does
  /// not travel and counts as 0.
  void add_others(const comm::RowBlock& array, const std::vector<comm::Piece>& pieces, std::vector<Index>& bytes) const;
  Index others(const comm::RowBlock& array, const std::vector<comm::Piece>& pieces) const;

  int number_;
  int rank_;
  pattern::Partition rows_;
  Problem whole_;
  Problem narrow_;
  /// True if several ranks of the group read the same K/V head. Then `sums_` has the head once for each such rank.
  bool are_heads_shared() const { return sums_.own.row_bytes > whole_.shape.kv_heads * whole_.head_row_sum_bytes(); }

  TwoForms q_;    // also the form of dq
  TwoForms out_;  // also the form of dout
  TwoForms kv_;
  TwoForms lse_;
  TwoForms normalizers_;
  TwoForms delta_;
  TwoForms top_rows_, top_weights_;
  TwoForms sums_;                         // for K/V rows
  std::vector<core::Interval> kv_heads_;  // the K/V heads that each rank of the group reads
};

}  // namespace annulus::strategies
