// Gradients of attention, piece by piece like attend() (attention.hpp): probabilities are recomputed from the scores,
// no n x n buffer exists (FlashAttention, Dao et al. 2022). Formulas: with s = scale * q.k and the keys' multiplicity
// already in the items,
//   P = exp(s - lse)   dP = output_scale * dout.v   dS = P (dP - delta)   delta = dout.out - dlse
//   dq = scale sum_keys dS k      dk = scale sum_queries dS q      dv = output_scale sum_queries P dout
// With grouped-query heads dk and dv of a key/value head sum over its query heads. Rows with lse = -inf give nothing.
#pragma once

#include <functional>

#include "annulus/core/tensor_view.hpp"
#include "annulus/core/types.hpp"
#include "annulus/core/work_item.hpp"
#include "annulus/kernels/attention.hpp"

namespace annulus::kernels {

/// One call's tensors. q (B, rows, H, D), dout (B, rows, H, Dv), k and v as in Operands: one storage type for
/// all four.
struct BackwardOperands {
  core::TensorView q;
  core::TensorView k;
  core::TensorView v;
  core::TensorView dout;
  core::TensorView normalizers;  ///< (B, rows, H, 2) of the accumulation precision, as finish() writes them
  core::TensorView delta;        ///< (B, rows, H) of the accumulation precision; see backward_delta()
  double scale = 1;              ///< scores are scale * q.k
  double output_scale = 1;       ///< as in finish()
  bool any_cut = false;          ///< the same bits however lists are cut are asked for: no matrix units
  bool by_granules = false;      ///< the same, but lists are cut between granules alone (State)
  core::TensorView out = {};     ///< stored as q is, where delta is dout.out and nothing else; no data: not known
  CallRule rule = {};            ///< dS is then of s before the cap: P (dP - delta) (1 - tanh^2)
};

/// Where gradients are added up, numbers of the accumulation precision in the units of finish_gradient(). dq lies as q
/// does (B, rows, H, D), dk and dv as k and v do (packed blocks too: same strides in numbers). Zero before the first
/// call. No data: not wanted, dk and dv alike; then the product that makes it is left out, 3 of 5 remain for dq, 4 for
/// dk and dv.
///
/// A key adds up in two levels: what some hundred query rows give it is added to its sum at once, or the sum of 65,536
/// small terms would lose four digits of seven. begun_dk and begun_dv lie as dk and dv do and hold what the rows of a
/// block have given so far that the list ended in (a block is some fixed number of comb indices, counted from 0). With
/// them bits do not depend on where lists are cut; in the end they have to be added to dk and dv. No data: a list ends
/// each block that it begins.
struct GradientViews {
  core::TensorView dq;
  core::TensorView dk;
  core::TensorView dv;
  core::TensorView begun_dk = {};
  core::TensorView begun_dv = {};
};

/// delta = sum_d dout * out - dlse, for every (batch, row, head), in `delta`'s type (float32 or float64). `dlse` is
/// (B, rows, H) of any storage type, or data = nullptr: zero. Where out is 0 because the row saw no key, delta is
/// not read. Complete on return.
void backward_delta(Backend backend, const core::Shape& shape, core::Index rows, const core::TensorView& out,
                    const core::TensorView& dout, const core::TensorView& dlse, const core::TensorView& delta);

/// Adds to `gradients` what the items' (query, key) pairs contribute. Same promise about items as attend(): every
/// (query row, head) and every (key row, key/value head) appears in at most one item of the list. For one item the
/// order of additions is fixed, whatever the number of threads: dq takes keys in descending comb order, dk and dv take
/// queries in ascending comb order (heads of the group ascending inside a row), one after another in a block of rows,
/// and block after block; matrix units, which take what does not ask for any_cut, add granules of 16. `poll` as in
/// attend(). Complete on return.
///   rows  query rows: q's, dout's, lse's and dq's
void attend_backward(Backend backend, const core::WorkList& work, const core::Shape& shape, core::Index rows,
                     core::Precision precision, const BackwardOperands& operands, const GradientViews& gradients,
                     const std::function<void()>& poll = {});

/// Bytes that attend_backward() takes at most for its own panels, all threads together, for `rows` query rows.
/// `in_blocks`: GradientViews have begun_dk and begun_dv.
core::Index attend_backward_bytes(Backend backend, const core::Shape& shape, core::Index rows,
                                  core::Precision precision, bool in_blocks = false);

/// Batch entries, each with so many bytes of sums, that are best worked on at a time where entries are many and short:
/// every thread has some tasks then, and sums stay in its caches.
core::Index backward_block_entries(Backend backend, const core::Shape& shape, core::Index bytes);

/// Which gradient an accumulator holds: its unit differs, since factors common to all terms are taken out.
enum class Gradient { dq, dk, dv };

/// to = unit(which) * accumulator, rounded to `to`'s type; (B, rows, heads, D) both. They may be the same memory when
/// the types have the same size. `scale` and `output_scale` as in BackwardOperands. Complete on return.
///   backends may keep different units inside, so accumulators of one backend are finished by the same one, and in the
///   same precision
void finish_gradient(Backend backend, Gradient which, core::Index batch, core::Index rows, core::Index heads,
                     core::Index head_dim, core::Precision precision, const core::TensorView& accumulator,
                     const core::TensorView& to, double scale, double output_scale);

}  // namespace annulus::kernels
