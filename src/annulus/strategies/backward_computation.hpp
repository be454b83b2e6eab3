// The local half of every strategy's backward pass: this rank's queries, their gradients, and the keys as they come.
#pragma once

#include "annulus/kernels/backward.hpp"
#include "annulus/kernels/gather.hpp"
#include "annulus/strategies/computation.hpp"

namespace annulus::strategies {

/// Sums of dK and dV for the rows of a KeyBlock, in its form: a (2, B, held, unit) array of the problem's precision.
struct GradientBlock {
  void* data = nullptr;
  Index held = 0;
  bool packed = false;

  /// Bytes of a stored row.
  Index unit_bytes(const Problem& problem) const;
  Index bytes(const Problem& problem) const { return 2 * problem.shape.batch * held * unit_bytes(problem); }
  /// The block as the kernel sees dK (which = 0) or dV (which = 1).
  core::TensorView view(const Problem& problem, Index which) const;
  /// The block in rows of one head, as packed rows are counted.
  kernels::RowArray head_rows(const Problem& problem) const;
};

/// delta = dout . out - dlse of `rows` rows: (B, rows, H) of the problem's precision. Throws where out, the
/// normalizers or dout are not there.
core::Buffer make_delta(const Problem& problem, Index rows, const Tensors& tensors);

class BackwardComputation {
 public:
  /// Queries are tensors.q, whose rows are `queries`; reads tensors.q, dout and normalizers. `expected` as in
  /// Computation.
  BackwardComputation(const Problem& problem, const pattern::StoredRows& queries, Tensors& tensors, core::Buffer delta,
                      core::Count expected, const Progress& progress);

  /// Sums for the rank's own K/V rows.
  const GradientBlock& own() const { return own_; }
  /// Begins one of rounds_of(problem); sums go on from round to round.
  void begin(const Problem& pass);
  /// Adds what `part` of the block's keys and the rank's queries give each other: to the queries' sums, and to `into`,
  /// which has the form of `block`. `poll` keeps messages moving meanwhile.
  void add(const KeyBlock& block, const GradientBlock& into, core::Mask part, const std::string& where,
           core::HopMetrics& metrics, const std::function<void()>& poll = {});
  /// Makes tensors.dq and tensors.dkv, in the memory of their sums, so that turning sums into results takes none.
  void finish(core::HopMetrics& metrics);
  /// Makes tensors.dq and hands out the sums for the own K/V rows; see finish_keys().
  core::Buffer finish_queries(core::HopMetrics& metrics);

 private:
  const Problem& problem_;
  const pattern::StoredRows& queries_;
  Tensors& tensors_;
  const Progress& progress_;
  core::Buffer delta_;
  core::Buffer dq_;
  core::Buffer dkv_;
  GradientBlock own_;
  pattern::Layout layout_;  // of the pass
  std::string pass_;        // its name, in front of places
  core::Count expected_ = 0;
  core::Count done_ = 0;
};

/// dK and dV (2, B, rows, Hkv, D) in the storage type from their sums, which are gone afterwards.
core::Buffer finish_keys(const Problem& problem, Index rows, core::Buffer sums, core::HopMetrics& metrics);

/// Bytes of the sums for a rank's own K/V rows.
Index key_sum_bytes(const Problem& problem, Index rows);
/// Bytes of the gradients of packed rows.
Index gradient_bytes(const Problem& problem, const pattern::PackedRows& packed);

/// Bytes that the kernels keep for their panels once the forward and the backward pass have computed `rows` rows.
Index backward_panels(const Problem& problem, Index rows);
/// Bytes of what backward() reads, q, kv, out, normalizers, dout, dlse, and of lse.
Index backward_inputs(const Problem& problem, Index rows);
/// Peak bytes of all the rest: sums, panels, `extra` bytes of buffers while it computes, results at the end.
Index backward_work(const Problem& problem, Index rows, Index extra);
/// Both.
Index backward_memory(const Problem& problem, Index rows, Index extra);

}  // namespace annulus::strategies
