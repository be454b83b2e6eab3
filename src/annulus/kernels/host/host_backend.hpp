// The host back end: the functions of attention.hpp and backward.hpp on the processor's vector units, in any
// instruction set that this processor has. Only for tensors in host memory.
#pragma once

#include <functional>

#include "annulus/core/instruction_set.hpp"
#include "annulus/kernels/attention.hpp"
#include "annulus/kernels/backward.hpp"
#include "annulus/kernels/host/tile_functions.hpp"
#include "annulus/kernels/statistics.hpp"

namespace annulus::kernels::host {

using core::best_instruction_set;
using core::InstructionSet;
using core::usable_instruction_sets;

/// The function table for words T: float, double or BFloat16Pair. For amx, returns the table of the vector set that
/// computes all but the matrix products. Throws Error if this processor does not have the set.
template <class T>
const TileFunctions<T>& tiles_of(InstructionSet set);

/// What computes the products of the set amx: the processor's matrix unit, or vectors instead.
struct MatrixUnit : MatrixTiles {
  std::string_view name;  ///< "amx", "avx512", "avx2", "baseline"
};
/// The matrix units that this machine can use, slowest first; all give the same bits.
const std::vector<MatrixUnit>& usable_matrix_units();
/// With the set amx, the fastest unit; with other sets, the fastest one that uses vectors.
const MatrixUnit& matrix_unit(InstructionSet set);

/// Why a call with these arguments uses vectors even in the set amx; empty if it can use the matrix unit. Example: "the
/// same bits for any cut are asked for".
std::string_view why_not_matrix(const core::Shape& shape);
std::string_view why_not_matrix(const State& state, const CallRule& rule = {});
std::string_view why_not_matrix(const BackwardOperands& operands, const GradientViews& gradients);

/// How many numbers of bfloat16 are added up to make one factor of a product.
constexpr int parts_of(core::Precision precision) {
  return precision == core::Precision::six_bfloat16 ? 3 : precision == core::Precision::three_bfloat16 ? 2 : 1;
}

/// Calls visit(Word{}) with the word type of products of this precision. Products of numbers in parts that no
/// matrix unit computes are computed in float32, which is more exact.
template <class Visit>
auto with_words(core::Precision precision, bool on_matrix_unit, Visit&& visit) {
  if (precision == core::Precision::bfloat16 || (on_matrix_unit && core::is_split(precision)))
    return visit(BFloat16Pair{});
  return precision == core::Precision::float64 ? visit(double{}) : visit(float{});
}

/// Index of a storage type in a table's arrays.
inline int storage_index(core::DType type) {
  static_assert(int(core::DType::float64) == 0 && int(core::DType::float32) == 1 && int(core::DType::float16) == 2 &&
                int(core::DType::bfloat16) == 3);
  return int(type);
}

/// How many keys a packed tile has, and how many query rows times heads a task has; 0 means what tuning.hpp says. Tests
/// show that no bit of a result depends on these sizes.
struct TileSizes {
  core::Index keys = 0;
  core::Index rows = 0;
};

void host_attend(const core::WorkList& work, const Operands& operands, State& state, const std::function<void()>& poll,
                 InstructionSet set = best_instruction_set(), const TileSizes& sizes = {});

/// See attend_bytes() of attention.hpp.
core::Index host_attend_bytes(const core::Shape& shape, core::Index rows, core::Precision precision,
                              InstructionSet set = best_instruction_set());

void host_finish(const State& state, const Finished& to, double output_scale,
                 InstructionSet set = best_instruction_set());

/// out and dout must have the same storage type.
void host_backward_delta(const core::Shape& shape, core::Index rows, const core::TensorView& out,
                         const core::TensorView& dout, const core::TensorView& dlse, const core::TensorView& delta,
                         InstructionSet set = best_instruction_set());

void host_attend_backward(const core::WorkList& work, const core::Shape& shape, core::Index rows,
                          core::Precision precision, const BackwardOperands& operands, const GradientViews& gradients,
                          const std::function<void()>& poll, InstructionSet set = best_instruction_set());

/// See attend_backward_bytes() of backward.hpp.
core::Index host_attend_backward_bytes(const core::Shape& shape, core::Index rows, core::Precision precision,
                                       bool in_blocks = false, InstructionSet set = best_instruction_set());

void host_attend_statistics(const core::WorkList& work, const core::Shape& shape, core::Index rows,
                            core::Precision precision, const StatisticOperands& operands,
                            const StatisticViews& statistics, const std::function<void()>& poll,
                            InstructionSet set = best_instruction_set());

/// See attend_statistics_bytes() of statistics.hpp.
core::Index host_attend_statistics_bytes(const core::Shape& shape, core::Index rows, core::Index slots,
                                         core::Index pairs, core::Precision precision,
                                         InstructionSet set = best_instruction_set());

/// `accumulator` and `to` are (B, S, H, D) of `shape`. Accumulators hold dq / scale, log2(e) dk and dv, and already
/// contain output_scale. With products of bfloat16, accumulators of dk hold dk / scale instead.
void host_finish_gradient(Gradient which, const core::Shape& shape, core::Precision precision,
                          const core::TensorView& accumulator, const core::TensorView& to, double scale,
                          InstructionSet set = best_instruction_set());

}  // namespace annulus::kernels::host
