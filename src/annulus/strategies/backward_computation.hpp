// Makes the gradients of this rank's queries, and of keys as they arrive, in the backward passes of all strategies.
#pragma once

#include "annulus/kernels/backward.hpp"
#include "annulus/strategies/sum_computation.hpp"

namespace annulus::strategies {

/// Returns delta = dout . out - dlse (without dlse: dout . out), (B, rows, H) in the problem's precision, for `rows`
/// rows. Throws if `tensors` lacks out, normalizers or dout.
core::Buffer make_delta(const Problem& problem, Index rows, const Tensors& tensors);

/// Makes tensors.sink_sums, the gradients of the sink logits, from normalizers and delta of `rows` rows. Does nothing
/// if the problem has no sink logits.
void make_sink_sums(const Problem& problem, Index rows, Tensors& tensors);

class BackwardComputation final : public SumComputation {
 public:
  /// `own_rows`: this rank's numbers of rows. Each call of add() reads q, dout, normalizers, delta (make_delta()) and,
  /// if there is no dlse, `out` of the queries given to it. At the end the computation frees tensors.delta.
  BackwardComputation(const Problem& problem, const RowCounts& own_rows, Tensors& tensors, core::Count expected,
                      const Progress& progress, Wanted wanted = Wanted::all);

  /// Makes tensors.dq and tensors.dkv, or only the wanted one, from their sums. Results go to the memory that the
  /// caller gave for them (for dkv: tensors.dk and dv). If the caller gave none, results overwrite their sums or, if
  /// the types or Dv forbid this, go to new memory.
  void finish(core::HopMetrics& metrics);
  /// Makes tensors.dq, if it is wanted. Returns the sums for the rank's own K/V rows, for finish_keys().
  core::Buffer finish_queries(core::HopMetrics& metrics);
  /// take_sums(), called instead of finish(), returns the sums for queries (B, rows, H, D) and for the own K/V rows.
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

/// Makes Tensors::dkv of `rows` rows from the sums of dK and dV: in the storage type, if possible in the sums' memory.
core::Buffer finish_keys(const Problem& problem, Index rows, core::Buffer sums, core::HopMetrics& metrics);

/// Makes dQ (B, rows, H, D) in the storage type, in `callers` if this is borrowed memory of the right size. `sums` is
/// (B, parts * rows, H, D) for `parts` ranks: its row p * rows + i is the sum that rank p made for row i. Adds a row's
/// sums in rank order.
core::Buffer finish_query_sums(const Problem& problem, Index rows, Index parts, const core::Buffer& sums,
                               const core::Buffer& callers, core::HopMetrics& metrics);

/// Returns into how many blocks of batch entries a backward pass is divided. Only for passes in which no rank adds to
/// another rank's sums. The blocks are worked on one after another. Entries are independent, so a block can be small
/// enough for its sums to stay in the threads' caches.
Index backward_blocks(const Problem& problem, const RowCounts& rows);
/// Returns the tensors of the batch entries `entries`, for a rank with `queries` query rows and the key rows `own`. If
/// `tensors` has no memory for a result (dq, dk, dv), this memory is first allocated there, for all entries. The
/// returned tensors point into `tensors`.
Tensors entries_of(const Problem& problem, Index queries, const pattern::StoredRows& own, Tensors& tensors,
                   core::Interval entries);

/// Bytes of the sums for `rows` query rows.
Index query_sum_bytes(const Problem& problem, Index rows);
/// Bytes that make_sink_sums() takes while it runs.
Index sink_sum_bytes(const Problem& problem);
/// The most bytes that kernels take beside tensors in either pass, forward or backward, of `rows` query rows: panels
/// (packed rows and their sums), a rule's coordinates, and copies for key_parts().
Index backward_panels(const Problem& problem, Index rows);
/// Bytes of what backward() reads (q, kv, out, normalizers, dout and dlse), and of lse, which is still in memory.
Index backward_inputs(const Problem& problem, const RowCounts& rows);
/// Peak bytes of a backward pass without the bytes of backward_inputs(): the wanted sums, the kernels' panels, `extra`
/// bytes of buffers during the computation, and the results at the end.
Index backward_work(const Problem& problem, const RowCounts& rows, Index extra, Wanted wanted = Wanted::all);
/// The same if batch entries are worked on in this many blocks (more than one).
Index backward_work_in_blocks(const Problem& problem, const RowCounts& rows, Index blocks);

}  // namespace annulus::strategies
