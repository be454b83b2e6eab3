// The local half of every strategy's backward pass: this rank's queries, their gradients, and the keys as they come.
#pragma once

#include "annulus/kernels/backward.hpp"
#include "annulus/strategies/sum_computation.hpp"

namespace annulus::strategies {

/// delta = dout . out - dlse of `rows` rows: (B, rows, H) of the problem's precision. Throws where out, the
/// normalizers or dout are not there.
core::Buffer make_delta(const Problem& problem, Index rows, const Tensors& tensors);

/// Makes tensors.sink_sums, the gradients of the sink logits, of `rows` rows; where there are such logits. Reads
/// normalizers and delta.
void make_sink_sums(const Problem& problem, Index rows, Tensors& tensors);

class BackwardComputation final : public SumComputation {
 public:
  /// Computes for a rank with so many rows. Reads q, dout, normalizers and delta (make_delta()) of the queries
  /// that meet the keys; frees tensors.delta at the end.
  BackwardComputation(const Problem& problem, const RowCounts& own_rows, Tensors& tensors, core::Count expected,
                      const Progress& progress, Wanted wanted = Wanted::all);

  /// Makes tensors.dq and tensors.dkv, or the wanted one of them, in the memory of their sums, so that turning sums
  /// into results takes none.
  void finish(core::HopMetrics& metrics);
  /// Makes tensors.dq where it is wanted, and hands out the sums for the own K/V rows; see finish_keys().
  core::Buffer finish_queries(core::HopMetrics& metrics);
  /// Hands out the sums for the queries, (B, rows, H, D), and for the own K/V rows, in place of either.
  struct Made {
    core::Buffer queries, keys;
  };
  Made take_sums();

 private:
  void attend(const core::WorkList& list, const KeyBlock& block, const QueryBlock& queries, const GradientBlock& into,
              const std::function<void()>& poll) override;

  Tensors& tensors_;
  const Wanted wanted_;
  core::Buffer dq_;
};

/// dK and dV (2, B, rows, Hkv, D) in the storage type from their sums, which are gone afterwards.
core::Buffer finish_keys(const Problem& problem, Index rows, core::Buffer sums, core::HopMetrics& metrics);

/// dQ (B, rows, H, D) in the storage type, in the memory of `there` if it fits, from the sums that `parts` ranks have:
/// those of rank p for row i are row p * rows + i of (B, parts * rows, H, D). They are added in this order.
core::Buffer finish_query_sums(const Problem& problem, Index rows, Index parts, const core::Buffer& sums,
                               const core::Buffer& there, core::HopMetrics& metrics);

/// Blocks of batch entries that a backward pass works on one after another where no rank adds to another one's sums:
/// entries share nothing, and the sums of a block stay in the caches of the threads.
Index backward_blocks(const Problem& problem, const RowCounts& rows);
/// The part of the tensors that some batch entries have, of a rank with so many queries and its own rows. Results are
/// made here for all, in place of what `tensors` lacks; those of the entries are written into them.
Tensors entries_of(const Problem& problem, Index queries, const pattern::StoredRows& own, Tensors& tensors,
                   core::Interval entries);

/// Bytes of the sums for `rows` query rows.
Index query_sum_bytes(const Problem& problem, Index rows);
/// Bytes that make_sink_sums() takes meanwhile.
Index sink_sum_bytes(const Problem& problem);
/// Bytes that the kernels keep for their panels once the forward and the backward pass have computed `rows` rows.
Index backward_panels(const Problem& problem, Index rows);
/// Bytes of what backward() reads, q, kv, out, normalizers, dout, dlse, and of lse.
Index backward_inputs(const Problem& problem, const RowCounts& rows);
/// Peak bytes of all the rest: sums that are wanted, panels, `extra` bytes of buffers while it computes, results at the
/// end.
Index backward_work(const Problem& problem, const RowCounts& rows, Index extra, Wanted wanted = Wanted::all);
/// The same where entries are worked on in so many blocks, more than one.
Index backward_work_in_blocks(const Problem& problem, const RowCounts& rows, Index blocks);
/// Both.
Index backward_memory(const Problem& problem, const RowCounts& rows, Index extra);

}  // namespace annulus::strategies
