// The one attention kernel of the project: adds keys to running softmax states.
//
// Every distribution strategy is: make K/V rows of other ranks arrive, call attend() with the work items that they make
// possible, finish() at the end. attend() knows nothing of dilation, segments, ranks or files: it sees pieces of combs
// (core/work_item.hpp).
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "annulus/core/buffer.hpp"
#include "annulus/core/tensor_view.hpp"
#include "annulus/core/types.hpp"
#include "annulus/core/work_item.hpp"
#include "annulus/kernels/score_rule.hpp"

namespace annulus::kernels {

/// Who computes the tiles.
///   host    register-blocked vector code, packed panels; host execution spaces only
///   device  Kokkos teams and scratch memory; GPUs, and also OpenMP and Serial, where CI tests it
///   cudnn   cuDNN on NVIDIA GPUs, for tensors of 16-bit numbers; what it does not take is done as `device` does it
using core::Backend;

/// Why this process has no such back end; empty: it has. Without a GPU, as where jobs are planned, the build counts.
std::string why_no_backend(Backend backend);

/// The back end that suits the default execution space.
Backend default_backend();

/// Why a back end has no products of this precision; empty: it has. Those of bfloat16 are the host's alone, those of
/// TF32 a GPU's with matrix units for them (where this machine has no GPU at all, a build with their kernels counts).
/// "products of tf32 are made by the matrix units of a GPU (NVIDIA, sm_80 and later), and this build computes on the
/// host".
std::string why_no_products(Backend backend, core::Precision precision);

/// What `auto` means for tensors of this type: products of bfloat16 for bfloat16 where the back end takes them and the
/// instruction set that is used has an instruction for them; but they leave statistics with fewer digits, so whoever
/// wants both has to name them. `any_cut`: the same bits for any cut are wanted, not only for those between granules.
/// The host's matrix unit does not give that, so the vectors beside it decide.
core::Precision default_precision(Backend backend, core::DType stored, bool with_statistics, bool any_cut = false);

/// Instruction set the host tiles use on this machine, chosen when first asked: "amx", "avx512_bf16", "avx512", "avx2"
/// or "baseline".
std::string_view host_instruction_set();

/// Running softmax of every (batch, row, head): with s2 = scale * log2(e) * q.k over the keys seen so far and an even
/// integer m, no less than the largest s2 (online softmax: Milakov and Gimelshein 2018),
///   l = sum 2^(s2 - m + bias),  acc = sum 2^(s2 - m + bias) v.    Never NaN.
/// Empty: m = -inf, l = 0, and acc counts as 0 whatever is there, so that it need not be written twice.
/// Where the entropy is wanted there is score_sum = sum 2^(s2 - m + bias) s2 beside l: with P = 2^(s2 - log2 L) it is
/// -sum P ln P = lse - ln(2) score_sum / l.
/// Layouts: m, l, score_sum (B, rows, H); acc (B, rows, H, Dv); all of `precision`, in the default execution space's
/// memory.
///
/// Keys are added one after another, an item's in descending order of t, and rescaling is exact. So out and lse have
/// the same bits however the keys of a row are cut into calls, items and tiles and the rows among threads, if the calls
/// come in the canonical order (keys of row x: x, x - 1, ..., 0 by Band::upto, then the last one ... x + 1 by
/// Band::after) and the exponent bias is reproducible_exponent_bias: on each back end on its own, the host one on one
/// instruction set, the device one on one kind of device. Without a bias a key whose weight falls below 2^-110 of the
/// heaviest one may or may not be counted.
///
/// by_granules: keys are added `granule` at a time, as matrix units do it, and bits are the same if items are cut
/// between granules of comb indices alone; no bias is needed. What a mask hides of a granule is added as zeros.
class State {
 public:
  /// Empty states for `rows` rows of `shape` (shape.sequence is not used). Throws Error when memory is short.
  State(const core::Shape& shape, core::Index rows, core::Precision precision, int exponent_bias = 0,
        bool entropy = false);
  /// The same with the accumulator in memory that is there already: that of the output, when it is contiguous and of
  /// the type of the accumulator. finish() then works in place.
  State(const core::Shape& shape, core::Index rows, core::Precision precision, int exponent_bias, bool entropy,
        core::Buffer acc);

  /// Bytes such states take with an accumulator of their own, and bytes of that, for predictions.
  static core::Index bytes(const core::Shape& shape, core::Index rows, core::Precision precision, bool entropy = false);
  static core::Index acc_bytes(const core::Shape& shape, core::Index rows, core::Precision precision);

  /// All states are empty again.
  void clear();

  core::Shape shape;
  core::Index rows = 0;
  core::Precision precision = core::Precision::float32;
  int exponent_bias = 0;
  core::Buffer m;
  core::Buffer l;
  core::Buffer score_sum;  ///< no bytes: the entropy is not wanted
  core::Buffer acc;
  /// Statistics will divide by l: it has to be the sum of the weights themselves, not of what products round them to.
  bool exact_sums = false;
  bool by_granules = false;
};

/// Keys (or queries, backward) that a GPU's matrix units add in one step: a product of 16-bit numbers is so deep.
inline constexpr core::Index granule = 16;
/// Those of a back end's matrix units; the host's are AMX.
constexpr core::Index granule_of(Backend backend) { return backend == Backend::host ? 32 : granule; }

/// Why results of such a problem cannot be made granule by granule on this machine's GPU, all gradients included, or
/// not at all where there is no GPU and the build has no kernels for one; empty: they can. On the host it takes
/// products of bfloat16 and the instruction set amx. "head size 320 is more than 256".
std::string why_no_granules(Backend backend, const core::Shape& shape, core::DType stored, core::Precision precision);

/// The exponent bias of states that are to have the same bits for any cut: weights below 2^-174 of the heaviest one,
/// which no output in float32 shows, may be lost. In float32 it leaves room for values |v| up to about 2^42 at 2^20
/// keys.
inline constexpr int reproducible_exponent_bias = 64;

/// One call's tensors: q (B, rows, H, D) as State::rows; k (B, stored rows, Hkv, D) and v (B, stored rows, Hkv, Dv),
/// one storage type for all three. v may be columns of k: no row is written.
struct Operands {
  core::TensorView q;
  core::TensorView k;
  core::TensorView v;
  double scale = 1;  ///< scores are scale * q.k
  CallRule rule = {};
};

/// Adds to `state` the keys that the items let the query rows see, an item's keys in descending order of t. Every
/// (query row, head) appears in at most one item of the list. Where matrix units cannot take a call (kernels/cuda), its
/// products of TF32 are products of float32. `poll` (may be empty) is called now and then by the
/// calling thread while the work goes on, at least between chunks of some milliseconds: MPI moves data only inside MPI
/// calls. Complete on return.
void attend(Backend backend, const core::WorkList& work, const Operands& operands, State& state,
            const std::function<void()>& poll = {});

/// Bytes that attend() takes at most for its own panels, all threads together, when the state has `rows` rows. The
/// memory is kept for the next call. (On a device panels live in the teams' scratch memory, which is no
/// allocation of ours: 0. The partial states of kernels/cuda where keys are split, 64 MiB at most, are left out.)
core::Index attend_bytes(Backend backend, const core::Shape& shape, core::Index rows, core::Precision precision);

/// Query rows that attend() should be given at least where they are computed block after block: fewer would leave
/// threads idle or pack keys too often.
core::Index attend_block_rows(Backend backend, const core::Shape& shape, core::Precision precision);

/// Where finish() writes.
struct Finished {
  core::TensorView out;
  core::TensorView lse;
  core::TensorView normalizers =
      {};                         ///< (B, rows, H, 2) of the state's precision (normalizer.hpp); no data: not wanted
  core::TensorView entropy = {};  ///< (B, rows, H) in lse's type; no data: not wanted
};

/// out = output_scale * acc / l in out's storage type, lse = ln(2) (m - bias + log2 l), natural and unshifted, in lse's
/// type, entropy = lse - ln(2) score_sum / l in nats, and what attend_backward() needs. None depends on how l and m
/// share the scale; out has no -0. A row that saw no key gets out = 0, lse = -inf and entropy = 0. `out` may be the
/// memory of state.acc where it has its layout and type. Complete on return.
void finish(Backend backend, const State& state, const Finished& to, double output_scale = 1);

}  // namespace annulus::kernels
