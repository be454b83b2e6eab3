// Ranks that share heads: groups of consecutive ranks, inside which rows are exchanged for heads, so that every rank
// holds all rows of its group for a share of the heads.
#pragma once

#include "annulus/comm/alltoall.hpp"
#include "annulus/strategies/backward_computation.hpp"

namespace annulus::strategies {

/// Rows of every group of `size` ranks; `size` divides the number of ranks.
pattern::Partition rows_of_groups(const pattern::Partition& partition, int size);

/// One rank's view of its group. Rank p has number p mod `size` in group p / `size`; query heads are dealt evenly over
/// the places, so with more ranks than heads the last ones get none. A K/V head goes to every rank whose query heads
/// read it.
///
/// Worked example: H = 5, Hkv = 1, 4 ranks in groups of 2: ranks 0 and 2 have query heads 0 1 2, ranks 1 and 3 heads 3
/// 4, all of them K/V head 0; ranks 0 and 1 hold the rows of both.
class HeadGroup {
 public:
  /// `size` divides the number of ranks.
  HeadGroup(const Problem& whole, const pattern::Partition& partition, int size, int rank);

  int number() const { return number_; }  ///< of the group
  int rank() const { return rank_; }      ///< in the group
  /// Rows of every group, of keys.
  const pattern::Partition& rows() const { return rows_; }
  /// What is computed on those rows: the problem of this rank's heads.
  const Problem& narrow() const { return narrow_; }

  /// Bytes of both exchanges that this rank sends to others, or receives from them; and from each rank of the group.
  Index bytes_sent() const;
  Index bytes_received() const;
  std::vector<Index> bytes_from() const;
  /// Rows of queries that others send.
  Index rows_received() const;
  /// Peak bytes, given those of the work on the group's rows.
  Index memory(Index narrow_memory) const;

  /// q and kv of the group's rows and this rank's heads; collective over the group.
  Tensors take_heads(const comm::Communicator& group, const Tensors& own) const;
  /// Makes own.out, lse and normalizers from those of the group's rows; collective over the group.
  void return_heads(const comm::Communicator& group, const Tensors& narrow, Tensors& own) const;

  // The same for the backward pass, where delta and the sums for K/V rows travel too, and for that of the statistics,
  // where lists and sums do: Problem::sums says which.
  Index backward_bytes_sent() const;
  Index backward_bytes_received() const;
  std::vector<Index> backward_bytes_from() const;
  /// Peak bytes, given those of the work on the group's rows without what it reads.
  Index backward_memory(Index narrow_work) const;

  /// What the work on the group's rows reads: q, kv, dout, normalizers and delta.
  Tensors take_backward_heads(const comm::Communicator& group, const Tensors& own) const;
  /// The same of what statistics read: q, kv and normalizers.
  Tensors take_statistics_heads(const comm::Communicator& group, const Tensors& own) const;
  /// Makes own.top_rows and top_weights, where they are asked for.
  void return_lists(const comm::Communicator& group, const Tensors& narrow, Tensors& own) const;
  /// Makes own.dq from that of the group's rows.
  void return_query_gradients(const comm::Communicator& group, const Tensors& narrow, Tensors& own) const;
  /// Sums for the rank's own K/V rows, all heads, from each rank's sums for its own heads and the group's rows, which
  /// are freed. Where several ranks read a K/V head, theirs are added in the order of their places.
  core::Buffer return_key_sums(const comm::Communicator& group, core::Buffer narrow) const;

 private:
  /// A tensor in its two forms, (parts, own rows, all heads) and (parts, group's rows, own heads), and what member m
  /// has of them: its heads of the one, its rows of the other.
  struct TwoForms {
    comm::RowBlock own, narrow;  ///< without data
    std::vector<comm::Piece> heads_of, rows_of;
  };
  struct GroupRows {
    pattern::Partition members;    ///< rows of each rank of the group
    pattern::StoredRows together;  ///< of all
  };
  TwoForms forms(Index parts, Index unit_bytes, Index all_heads, const std::vector<core::Interval>& heads,
                 const GroupRows& rows) const;
  /// What forward() makes.
  std::vector<const TwoForms*> outputs() const;
  /// What a pass with sums reads, and what it makes.
  std::vector<const TwoForms*> sum_inputs() const;
  std::vector<const TwoForms*> sum_outputs() const;
  Index statistics_memory(Index narrow_work) const;
  /// Bytes of the pieces of each rank of the group; its own, which do not travel, count as none.
  void add_others(const comm::RowBlock& array, const std::vector<comm::Piece>& pieces, std::vector<Index>& bytes) const;
  Index others(const comm::RowBlock& array, const std::vector<comm::Piece>& pieces) const;

  int number_;
  int rank_;
  pattern::Partition rows_;
  Problem whole_;
  Problem narrow_;
  /// K/V heads appear as often as ranks of the group read them, rank after rank.
  bool are_heads_shared() const { return sums_.own.row_bytes > whole_.shape.kv_heads * whole_.head_row_sum_bytes(); }

  TwoForms q_;    // and dq
  TwoForms out_;  // and dout
  TwoForms kv_;
  TwoForms lse_;
  TwoForms normalizers_;
  TwoForms delta_;
  TwoForms top_rows_, top_weights_;
  TwoForms sums_;                         // for K/V rows
  std::vector<core::Interval> kv_heads_;  // that each rank of the group reads
};

}  // namespace annulus::strategies
