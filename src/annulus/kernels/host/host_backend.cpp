// The host back end's table of functions, and the choice between the tables of the instruction sets.
#include "annulus/kernels/host/host_backend.hpp"

#include <algorithm>
#include <type_traits>

#include "annulus/core/amx.hpp"
#include "annulus/core/error.hpp"
#include "annulus/kernels/backend.hpp"

namespace annulus::kernels {
namespace host {
namespace {

/// Returns the table whose words are T.
template <class T>
const TileFunctions<T>& pick(const TileFunctions<float>& narrow, const TileFunctions<double>& wide,
                             const TileFunctions<BFloat16Pair>& pairs) {
  if constexpr (std::is_same_v<T, double>) {
    return wide;
  } else if constexpr (std::is_same_v<T, float>) {
    return narrow;
  } else {
    return pairs;
  }
}

}  // namespace

template <class T>
const TileFunctions<T>& tiles_of(InstructionSet set) {
  const auto usable = usable_instruction_sets();
  core::require(std::find(usable.begin(), usable.end(), set) != usable.end(),
                [&] { return fmt::format("no code for {} in this build, or not on this processor", name_of(set)); });
  set = core::vectors_beside(set);
#if defined(ANNULUS_HAS_X86_TILES)
  if (set == InstructionSet::avx512_bf16)
    return pick<T>(avx512::float_tiles, avx512::double_tiles, avx512_bf16::pair_tiles);
  if (set == InstructionSet::avx512) return pick<T>(avx512::float_tiles, avx512::double_tiles, avx512::pair_tiles);
  if (set == InstructionSet::avx2) return pick<T>(avx2::float_tiles, avx2::double_tiles, avx2::pair_tiles);
#endif
  return pick<T>(baseline::float_tiles, baseline::double_tiles, baseline::pair_tiles);
}

const std::vector<MatrixUnit>& usable_matrix_units() {
  static const std::vector<MatrixUnit> usable = [] {
    std::vector<MatrixUnit> units{{amx_baseline::tiles, InstructionSet::baseline, "baseline"}};
#if defined(ANNULUS_HAS_X86_TILES)
    const InstructionSet vectors = core::vectors_beside(InstructionSet::amx);
    if (vectors >= InstructionSet::avx2) units.push_back({amx_avx2::tiles, InstructionSet::avx2, "avx2"});
    if (vectors >= InstructionSet::avx512) units.push_back({amx_avx512::tiles, InstructionSet::avx512, "avx512"});
#endif
#if defined(ANNULUS_HAS_AMX_TILES)
    if (core::has_amx()) units.push_back({amx::tiles, InstructionSet::amx, "amx"});
#endif
    return units;
  }();
  return usable;
}

const MatrixUnit& matrix_unit(InstructionSet set) {
  const std::vector<MatrixUnit>& units = usable_matrix_units();
  return *std::find_if(units.rbegin(), units.rend(), [&](const MatrixUnit& unit) { return unit.set <= set; });
}

std::string_view why_not_matrix(const core::Shape& shape) {
  if (shape.head_dim > kMaxMatrixDim) return "heads have more than 256 numbers";
  return shape.has_value_dim() ? "values have another head size than keys" : "";
}

std::string_view why_not_matrix(const State& state, const CallRule& rule) {
  if (rule.rule != nullptr) return "scores have a cap or a bias";
  if (const std::string_view why = why_not_matrix(state.shape); !why.empty()) return why;
  if (state.exponent_bias != 0) return "the same bits for any cut are asked for";
  if (state.score_sum.bytes() > 0) return "the entropy is asked for";
  if (state.exact_sums) return "statistics need the sums of exact weights";
  return "";
}

std::string_view why_not_matrix(const BackwardOperands& operands, const GradientViews& gradients) {
  if (operands.rule.rule != nullptr) return "scores have a cap or a bias";
  if (operands.any_cut || gradients.begun_dk.data != nullptr) return "the same bits for any cut are asked for";
  return "";
}

template const TileFunctions<float>& tiles_of<float>(InstructionSet);
template const TileFunctions<double>& tiles_of<double>(InstructionSet);
template const TileFunctions<BFloat16Pair>& tiles_of<BFloat16Pair>(InstructionSet);

}  // namespace host

using core::Precision;
using core::Shape;
using core::TensorView;
using Poll = BackendFunctions::Poll;

const BackendFunctions host_backend{
    .attend = [](const core::WorkList& work, const Operands& operands, State& state,
                 const Poll& poll) { host::host_attend(work, operands, state, poll); },
    .attend_bytes = [](const Shape& shape, core::Index rows,
                       Precision precision) { return host::host_attend_bytes(shape, rows, precision); },
    .finish = [](const State& state, const Finished& to,
                 double output_scale) { host::host_finish(state, to, output_scale); },
    .backward_delta = [](const Shape& shape, core::Index rows, const TensorView& out, const TensorView& dout,
                         const TensorView& dlse,
                         const TensorView& delta) { host::host_backward_delta(shape, rows, out, dout, dlse, delta); },
    .attend_backward =
        [](const core::WorkList& work, const Shape& shape, core::Index rows, Precision precision,
           const BackwardOperands& operands, const GradientViews& gradients,
           const Poll& poll) { host::host_attend_backward(work, shape, rows, precision, operands, gradients, poll); },
    .attend_backward_bytes =
        [](const Shape& shape, core::Index rows, Precision precision, bool in_blocks) {
          return host::host_attend_backward_bytes(shape, rows, precision, in_blocks);
        },
    .attend_statistics =
        [](const core::WorkList& work, const Shape& shape, core::Index rows, Precision precision,
           const StatisticOperands& operands, const StatisticViews& statistics, const Poll& poll) {
          host::host_attend_statistics(work, shape, rows, precision, operands, statistics, poll);
        },
    .attend_statistics_bytes =
        [](const Shape& shape, core::Index rows, core::Index slots, core::Index pairs, Precision precision) {
          return host::host_attend_statistics_bytes(shape, rows, slots, pairs, precision);
        },
    .finish_gradient = [](Gradient which, const Shape& shape, Precision precision, const TensorView& accumulator,
                          const TensorView& to, double scale,
                          double) { host::host_finish_gradient(which, shape, precision, accumulator, to, scale); }};

}  // namespace annulus::kernels
