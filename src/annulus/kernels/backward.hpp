// Gradients of attention, added item by item, as attend() adds keys (attention.hpp). Probabilities P are computed again
// from the scores, so that no buffer has n x n numbers for n rows (FlashAttention, Dao et al. 2022). If a row sees a
// key through several pairs of the pattern, each pair has an item with this key. Formulas, with s = scale * q.k:
//   P = exp(s - lse)   dP = output_scale * dout.v   dS = P (dP - delta)   delta = dout.out - dlse
//   dq = scale sum_keys dS k      dk = scale sum_queries dS q      dv = output_scale sum_queries P dout
// With grouped-query heads, dk and dv of a key/value head sum over its query heads. Rows with lse = -inf add nothing.
#pragma once

#include <functional>

#include "annulus/core/tensor_view.hpp"
#include "annulus/core/types.hpp"
#include "annulus/core/work_item.hpp"
#include "annulus/kernels/attention.hpp"

namespace annulus::kernels {

/// One call's tensors: q (B, rows, H, D), dout (B, rows, H, Dv), k and v as in Operands, all four of one storage type.
struct BackwardOperands {
  core::TensorView q;
  core::TensorView k;
  core::TensorView v;
  core::TensorView dout;
  core::TensorView normalizers;  ///< (B, rows, H, 2) of the accumulation precision, as finish() writes them
  core::TensorView delta;        ///< (B, rows, H) of the accumulation precision; see backward_delta()
  double scale = 1;              ///< above 0; scores are scale * q.k
  double output_scale = 1;       ///< as in finish()
  bool any_cut = false;          ///< bits must be the same however lists are cut, so matrix units are not used
  bool by_granules = false;      ///< bits must be the same if lists are cut only between granules (State)
  core::TensorView out = {};     ///< (B, rows, H, Dv), q's type; only cuDNN reads it; no data if dlse is given
  core::Index key_parts = 1;     ///< see key_parts() of attention.hpp: dq is the sum of the parts' sums
  CallRule rule = {};            ///< with a cap, dS is the gradient of s before the cap: P (dP - delta) (1 - tanh^2)
};

/// The memory in which gradients are added up: numbers of the accumulation precision, in units that finish_gradient()
/// converts. dq has q's layout (B, rows, H, D). dk and dv have the strides of k and v, counted in numbers, also if k
/// and v are packed rows. All gradients must be zero before the first call. A view without data means that its gradient
/// is not wanted. dk and dv are wanted together or not at all. The pass has five products of tiles. dq alone needs 3 of
/// them, dk and dv alone need 4, and back ends compute no others.
///
/// A key's sum has two levels: the terms of a block of query rows are added up first, then the block's sum is added to
/// the key's sum. (A block covers a fixed number of comb indices, counted from 0: tuning::host_sum_rows or
/// device::sum_rows.) With one level the sum of 65,536 small terms would lose four of seven digits. If a list ends
/// inside a block, begun_dk and begun_dv keep the block's unfinished sums for the next list, so that bits do not depend
/// on where lists are cut. begun_dk and begun_dv have the strides of dk and dv. The caller adds them to dk and dv after
/// the last list. If they have no data, back ends may use other blocks, and a block ends where its list ends.
struct GradientViews {
  core::TensorView dq;
  core::TensorView dk;
  core::TensorView dv;
  core::TensorView begun_dk = {};
  core::TensorView begun_dv = {};
};

/// Sets delta = sum_d dout * out - dlse for every (batch, row, head), in `delta`'s type (float32 or float64). `dlse` is
/// (B, rows, H) of any storage type. Without data it counts as zero. The delta of a row that saw no key has no effect.
/// The host throws Error if out and dout are of different storage types. Complete on return.
void backward_delta(Backend backend, const core::Shape& shape, core::Index rows, const core::TensorView& out,
                    const core::TensorView& dout, const core::TensorView& dlse, const core::TensorView& delta);

/// Adds to `gradients` the terms of the items' (query, key) pairs. Every (query row, head) and every (key row,
/// key/value head) must be in at most one item of the list. In an item the order of additions is fixed for any number
/// of threads. dq takes keys in descending comb order, within each of the key_parts. dk and dv take queries in
/// ascending comb order (the heads of one row in ascending order), one after another within a block of rows, and block
/// after block. Matrix units, which are not used if any_cut is set, add one granule (granule_of()) at a time. `poll`
/// and errors are as in attend(). Complete on return.
///   rows  number of query rows in q, dout, normalizers, delta and dq
void attend_backward(Backend backend, const core::WorkList& work, const core::Shape& shape, core::Index rows,
                     core::Precision precision, const BackwardOperands& operands, const GradientViews& gradients,
                     const std::function<void()>& poll = {});

/// Returns the most bytes that attend_backward() allocates with `rows` query rows: panels as for attend_bytes(), or
/// cuDNN's results and workspace. `in_blocks`: begun_dk and begun_dv of GradientViews have data. This function leaves
/// out the copies of query rows and of dq, one for each of BackwardOperands::key_parts.
core::Index attend_backward_bytes(Backend backend, const core::Shape& shape, core::Index rows,
                                  core::Precision precision, bool in_blocks = false);

/// Returns how many batch entries a pass should work on at a time if they are many and short. A batch entry has `bytes`
/// bytes of sums. With this number every thread has some tasks, and sums of small entries stay in the thread's caches.
core::Index backward_block_entries(Backend backend, const core::Shape& shape, core::Index bytes);

/// The gradient that an accumulator holds. Each gradient has its own unit, because its accumulator leaves out the
/// factors that all its terms share.
enum class Gradient { dq, dk, dv };

/// Sets to = unit(which) * accumulator, rounded to `to`'s type; both are (B, rows, heads, D). `to` may be the memory of
/// `accumulator` if the types have the same size. `scale` and `output_scale` are those of BackwardOperands. Back ends
/// may use different units, so call this with the back end and the precision that made the accumulator. Complete on
/// return.
void finish_gradient(Backend backend, Gradient which, core::Index batch, core::Index rows, core::Index heads,
                     core::Index head_dim, core::Precision precision, const core::TensorView& accumulator,
                     const core::TensorView& to, double scale, double output_scale);

}  // namespace annulus::kernels
