#include <algorithm>
#include <type_traits>

#include "annulus/core/error.hpp"
#include "annulus/kernels/host/instruction_set.hpp"

namespace annulus::kernels::host {

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
