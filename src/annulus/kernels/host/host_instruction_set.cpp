#include <algorithm>
#include <type_traits>

#include "annulus/core/error.hpp"
#include "annulus/kernels/host/instruction_set.hpp"

namespace annulus::kernels::host {

std::string_view name_of(InstructionSet set) {
  switch (set) {
    case InstructionSet::baseline:
      return "baseline";
    case InstructionSet::avx2:
      return "avx2";
    case InstructionSet::avx512:
      return "avx512";
  }
  return "";
}

std::vector<InstructionSet> usable_instruction_sets() {
  std::vector<InstructionSet> usable{InstructionSet::baseline};
#if defined(ANNULUS_HAS_X86_TILES)
  // Every processor with AVX2 and FMA also converts half precision (F16C), which not every compiler can ask for.
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  if (avx2) usable.push_back(InstructionSet::avx2);
  if (avx512) usable.push_back(InstructionSet::avx512);
#endif
  return usable;
}

InstructionSet best_instruction_set() {
  static const InstructionSet best = usable_instruction_sets().back();
  return best;
}

namespace {

void require_usable(InstructionSet set) {
  const auto usable = usable_instruction_sets();
  core::require(std::find(usable.begin(), usable.end(), set) != usable.end(),
                [&] { return fmt::format("this processor or build has no {} tiles", name_of(set)); });
}

/// The table for T of the two.
template <class T, class Narrow, class Wide>
const auto& pick(const Narrow& narrow, const Wide& wide) {
  if constexpr (std::is_same_v<T, double>) {
    return wide;
  } else {
    return narrow;
  }
}

}  // namespace

template <class T>
const TileFunctions<T>& tiles_of(InstructionSet set) {
  require_usable(set);
#if defined(ANNULUS_HAS_X86_TILES)
  if (set == InstructionSet::avx512) return pick<T>(avx512::float_tiles, avx512::double_tiles);
  if (set == InstructionSet::avx2) return pick<T>(avx2::float_tiles, avx2::double_tiles);
#endif
  return pick<T>(baseline::float_tiles, baseline::double_tiles);
}

template <class T>
const BackwardFunctions<T>& backward_of(InstructionSet set) {
  require_usable(set);
#if defined(ANNULUS_HAS_X86_TILES)
  if (set == InstructionSet::avx512) return pick<T>(avx512::float_backward, avx512::double_backward);
  if (set == InstructionSet::avx2) return pick<T>(avx2::float_backward, avx2::double_backward);
#endif
  return pick<T>(baseline::float_backward, baseline::double_backward);
}

template const TileFunctions<float>& tiles_of<float>(InstructionSet);
template const TileFunctions<double>& tiles_of<double>(InstructionSet);
template const BackwardFunctions<float>& backward_of<float>(InstructionSet);
template const BackwardFunctions<double>& backward_of<double>(InstructionSet);

}  // namespace annulus::kernels::host
