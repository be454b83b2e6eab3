// The host back end: computes the functions of attention.hpp, backward.hpp and statistics.hpp on the processor's vector
// and matrix units, in any instruction set that the processor has. All tensors must be in host memory.
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

/// Returns the table of functions that compute with words of type T (words.hpp): float, double or BFloat16Pair. For
/// amx, returns the table of the vector set that computes all but the matrix products. Throws Error if this processor
/// or build does not have the set.
template <class T>
const TileFunctions<T>& tiles_of(InstructionSet set);

/// The functions of one unit that can compute the matrix products of the set amx: the processor's matrix unit, or
/// vector instructions that give the same bits.
struct MatrixUnit : MatrixTiles {
  InstructionSet set;
  std::string_view name;  ///< "amx", "avx512", "avx2", "baseline"
};
/// Returns the units that this machine can use, slowest first. All give the same bits.
const std::vector<MatrixUnit>& usable_matrix_units();
/// Returns the fastest unit that uses no instructions beyond `set`.
const MatrixUnit& matrix_unit(InstructionSet set);

/// Returns why a call with these arguments uses vectors although the set is amx, for example "the entropy is asked
/// for". Returns an empty string if the call can use the matrix unit.
std::string_view why_not_matrix(const core::Shape& shape);
std::string_view why_not_matrix(const State& state, const CallRule& rule = {});
std::string_view why_not_matrix(const BackwardOperands& operands, const GradientViews& gradients);

/// Returns how many numbers of bfloat16 are added up to make one factor of a product.
constexpr int parts_of(core::Precision precision) {
  return precision == core::Precision::six_bfloat16 ? 3 : precision == core::Precision::three_bfloat16 ? 2 : 1;
}

/// Calls visit(Word{}) with the word type (words.hpp) of products of this precision. `on_matrix_unit`: the call can use
/// the tables of a MatrixUnit. Only these tables have products of three_bfloat16 and six_bfloat16, whose factors are
/// sums of several bfloat16 numbers. Other calls compute such products in float32, which is more exact.
template <class Visit>
auto with_words(core::Precision precision, bool on_matrix_unit, Visit&& visit) {
  if (precision == core::Precision::bfloat16 || (on_matrix_unit && core::is_split(precision)))
    return visit(BFloat16Pair{});
  return precision == core::Precision::float64 ? visit(double{}) : visit(float{});
}

/// Returns the index of a storage type in a table's arrays.
inline int storage_index(core::DType type) {
  static_assert(int(core::DType::float64) == 0 && int(core::DType::float32) == 1 && int(core::DType::float16) == 2 &&
                int(core::DType::bfloat16) == 3);
  return int(type);
}

/// The number of keys of a packed tile, and the number of (query row, head) pairs of a task. 0 means the size that
/// tuning.hpp gives. Tests choose other sizes, to check that no bit of a result depends on them.
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

/// `accumulator` and `to` are (B, S, H, D) of `shape`. An accumulator holds dq / scale, log2(e) * dk (in precision
/// bfloat16 dk / scale), or dv. All of these contain output_scale already (backward.hpp).
void host_finish_gradient(Gradient which, const core::Shape& shape, core::Precision precision,
                          const core::TensorView& accumulator, const core::TensorView& to, double scale,
                          InstructionSet set = best_instruction_set());

}  // namespace annulus::kernels::host
