// Attention on any back end: attend() adds keys to running softmax states.
//
// A distribution strategy gets rows of K and V (the strategy pass_q: rows of q) from other ranks or from a file. It
// calls attend() with the work items whose rows have arrived, and finish() at the end. attend() knows nothing about
// dilation, segments, ranks or files, because its arguments are pieces of combs (core/work_item.hpp).
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

/// The code that computes attention.
///   host    vector and matrix units of the processor (kernels/host); host execution spaces only
///   device  Kokkos teams and scratch memory; for GPUs, and for tests also on OpenMP and Serial
///   cudnn   cuDNN on NVIDIA GPUs, for tensors of 16-bit numbers; `device` computes what cuDNN does not take
using core::Backend;

/// Returns why this process cannot use this back end, or an empty string if it can. On a machine without a GPU, the
/// string is also empty if the build has the back end.
std::string why_no_backend(Backend backend);

/// Returns `host` if this build has it, otherwise `device`.
Backend default_backend();

/// Returns why a back end has no products of this precision, or an empty string if it has them. Only the host has the
/// precisions bfloat16, 3xbfloat16 and 6xbfloat16. Only GPUs with matrix units for TF32 have products of TF32. (On a
/// machine without a GPU, it is enough that the build has kernels for TF32.) Example: "products of tf32 are made by the
/// matrix units of a GPU (NVIDIA, sm_80 and later), and this build computes on the host".
std::string why_no_products(Backend backend, core::Precision precision);

/// Returns the precision in which products are computed: `precision`, with one exception. Only kernels for matrix units
/// have 3xbfloat16 and 6xbfloat16. These kernels take no head sizes above core::most_matrix_dim, no values of another
/// head size than keys, and no scores with a cap or a bias (`ruled`). For such problems the precision is float32.
core::Precision computed_products(const core::Shape& shape, core::Precision precision, bool ruled);

/// Returns the precision that `auto` means for tensors of type `stored`: float64 for float64, otherwise float32, with
/// two exceptions. For tensors of bfloat16 it is bfloat16 if the back end has this precision, the instruction set in
/// use has an instruction for its products, and no statistics are wanted. (These products cost digits, so users who
/// want statistics from them must name the precision.) `any_cut`: bits must be the same for any cut of the keys, not
/// only for cuts between granules. AMX cannot make such bits, so the vector set used beside AMX must have the
/// instruction. For tensors of float16 it is 3xbfloat16 if the host computes, this process has matrix units, no
/// statistics are wanted and `any_cut` is false. So answers differ if only some of the ranks have matrix units.
core::Precision default_precision(Backend backend, core::DType stored, bool with_statistics, bool any_cut = false);

/// Returns the instruction set that the host back end uses on this machine: "amx", "avx512_bf16", "avx512", "avx2" or
/// "baseline"; "none" in a build without this back end. It is the best set that core/instruction_set.hpp allows.
std::string_view host_instruction_set();

/// Running softmax (Milakov and Gimelshein 2018) of every (batch, row, head). For the keys seen so far, let s2 be the
/// scores in base 2 (scale * log2(e) * q.k, changed by Operands::rule), and m an even integer that is at least the
/// largest s2 (AMX: more than the largest s2 - 1). With bias = exponent_bias:
///   l = sum 2^(s2 - m + bias),  acc = sum 2^(s2 - m + bias) v
/// Scores that overflow make no NaN. An empty state has m = -inf and l = 0. Its acc counts as 0, whatever numbers acc
/// holds, so acc need not be cleared. If the entropy is wanted, a state also has score_sum = sum 2^(s2 - m + bias) s2,
/// because with P = 2^(s2 - m + bias) / l the entropy is -sum P ln P = lse - ln(2) score_sum / l. m, l and score_sum
/// are (B, rows, H), acc is (B, rows, H, Dv), all of type_of(precision) and in the default execution space's memory.
///
/// Keys are added one after another (an item's keys in descending order of t), and rescaling is exact. So out and lse
/// have the same bits however a row's keys are cut into calls, items and tiles, and whichever thread works on the row.
/// There are two conditions. The exponent bias must be reproducible_exponent_bias. Calls must come in the canonical
/// order: the row of comb index x takes keys x, x - 1, ..., 0 (Band::upto), then the keys after x, the last one first
/// (Band::after). Other back ends, other instruction sets of the host and other kinds of device may give other bits.
/// Without the bias, a key whose weight is below about 2^-108 of the largest weight may count with one cut and not with
/// another.
///
/// by_granules: matrix units add the keys of one granule (granule_of()) at a time, and count its hidden keys as zeros.
/// Bits are then the same if items are cut only between granules of comb indices, also with an exponent bias of 0.
class State {
 public:
  /// Makes empty states for `rows` rows of `shape`, without use of shape.sequence. Throws Error if memory is too small.
  State(const core::Shape& shape, core::Index rows, core::Precision precision, int exponent_bias = 0,
        bool entropy = false);
  /// The same, but the accumulator uses memory that exists already, of acc_bytes() bytes. This can be the output's
  /// memory, if the output is contiguous and has the accumulator's type. finish() then works in place.
  State(const core::Shape& shape, core::Index rows, core::Precision precision, int exponent_bias, bool entropy,
        core::Buffer acc);

  /// Return how many bytes such states take with their accumulator, and how many the accumulator takes alone.
  static core::Index bytes(const core::Shape& shape, core::Index rows, core::Precision precision, bool entropy = false);
  static core::Index acc_bytes(const core::Shape& shape, core::Index rows, core::Precision precision);

  /// Makes all states empty again.
  void clear();

  core::Shape shape;
  core::Index rows = 0;
  core::Precision precision = core::Precision::float32;
  int exponent_bias = 0;
  core::Buffer m;
  core::Buffer l;
  core::Buffer score_sum;  ///< no bytes if the entropy is not wanted
  core::Buffer acc;
  /// True if statistics divide by l. Matrix units for 16-bit numbers are then not used, because they round the weights
  /// in l.
  bool exact_sums = false;
  bool by_granules = false;
  core::Index key_parts = 1;  ///< what the function key_parts() returned
};

/// Returns into how many parts attend() and attend_backward() may cut the keys of an item. Few query rows with many
/// keys, such as 64 latents that read 200,000 rows, would otherwise make fewer tasks than a node has threads. Each part
/// has sums of its own. They are merged afterwards, so bits differ from those of uncut keys. One part, which means no
/// cut, is always allowed. Call this once for the whole problem of a rank, not for each block of its rows, because the
/// size of blocks depends on the number of threads, and bits must not depend on that number.
///   shape  of the problem; shape.sequence is the number of keys      rows  the rank's query rows
core::Index key_parts(Backend backend, const core::Shape& shape, core::Index rows);

/// A GPU's matrix units add this many keys (for dk and dv: queries) in one step, the depth of their 16-bit products.
inline constexpr core::Index granule = 16;
/// Returns the same number for the matrix units of any back end. The host's matrix units are AMX.
constexpr core::Index granule_of(Backend backend) { return backend == Backend::host ? 32 : granule; }

/// Returns why results of such a problem, including all gradients, cannot be made granule by granule, or an empty
/// string if they can. For back end `device` the answer is about this machine's GPU or, on a machine without a GPU,
/// about this build's kernels. The host needs precision bfloat16 and the instruction set amx, or precision 3xbfloat16
/// or 6xbfloat16, whose bits are the same with every set. Example: "head size 320 is more than 256".
std::string why_no_granules(Backend backend, const core::Shape& shape, core::DType stored, core::Precision precision);

/// The exponent bias of states that must have the same bits for any cut. Weights below about 2^-172 of the largest
/// weight may still be lost, but for |v| up to 2^22 their terms are below the smallest float32 number. In float32, sums
/// with this bias do not overflow for |v| up to about 2^42 with 2^20 keys.
inline constexpr int reproducible_exponent_bias = 64;

/// One call's tensors: q (B, State::rows, H, D), k (B, stored rows, Hkv, D) and v (B, stored rows, Hkv, Dv), of one
/// storage type. v may be some columns of k in the same memory, because both are only read.
struct Operands {
  core::TensorView q;
  core::TensorView k;
  core::TensorView v;
  double scale = 1;  ///< above 0; scores are scale * q.k
  CallRule rule = {};
};

/// Adds to `state` the keys that the query rows of the items see, an item's keys in descending order of comb index.
/// Every (query row, head) must be in at most one item of the list. If a call wants products of TF32, but matrix units
/// cannot take the call (kernels/cuda), the call gets products of float32. The calling thread calls `poll` (may be
/// empty) every few milliseconds during the work, because MPI moves data only inside MPI calls. Complete on return.
/// Throws Error if q, k and v are of different storage types, or if the back end cannot compute such a call.
void attend(Backend backend, const core::WorkList& work, const Operands& operands, State& state,
            const std::function<void()>& poll = {});

/// Returns the most bytes that attend() allocates, and keeps for the next call, if the state has `rows` rows: for the
/// host's panels (packed rows and their sums) of all threads, or for cuDNN's results. Back end `device` allocates none,
/// because its tiles are in scratch or shared memory. This function leaves out work lists in device memory, the states
/// and copies of q for State::key_parts, and partial states (kernels/cuda/key_split.hpp, 64 MiB or less).
core::Index attend_bytes(Backend backend, const core::Shape& shape, core::Index rows, core::Precision precision);

/// Returns how many rows a block should have, at least, if query rows are given to attend() block after block. Smaller
/// blocks would leave threads idle, or make threads pack the keys too often.
core::Index attend_block_rows(Backend backend, const core::Shape& shape, core::Precision precision);

/// The tensors that finish() writes.
struct Finished {
  core::TensorView out;
  core::TensorView lse;
  core::TensorView normalizers =
      {};                         ///< (B, rows, H, 2) of the state's precision (normalizer.hpp); no data: not wanted
  core::TensorView entropy = {};  ///< (B, rows, H) in lse's type; no data: not wanted
};

/// Writes out = output_scale * acc / l in out's storage type, lse = ln(2) (m - bias + log2 l), a natural logarithm, in
/// lse's type, entropy = lse - ln(2) score_sum / l in nats, and the normalizers. Results do not depend on how a sum l
/// 2^m is divided into l and 2^m. Zeros in out are +0. A row that saw no key gets out = 0, lse = -inf and entropy = 0.
/// `out` may be the memory of state.acc if it has the same layout and type. Complete on return.
void finish(Backend backend, const State& state, const Finished& to, double output_scale = 1);

}  // namespace annulus::kernels
