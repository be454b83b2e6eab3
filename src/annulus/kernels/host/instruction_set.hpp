// From an instruction set and an arithmetic type to its table.
#pragma once

#include "annulus/core/types.hpp"
#include "annulus/kernels/host/backward_functions.hpp"
#include "annulus/kernels/host/host_backend.hpp"
#include "annulus/kernels/host/tile_functions.hpp"

namespace annulus::kernels::host {

/// T is float or double. Throws Error where the set is not usable here.
template <class T>
const TileFunctions<T>& tiles_of(InstructionSet set);
template <class T>
const BackwardFunctions<T>& backward_of(InstructionSet set);

/// Place of a storage type in a table's arrays.
inline int storage_index(core::DType type) {
  static_assert(int(core::DType::float64) == 0 && int(core::DType::float32) == 1 && int(core::DType::float16) == 2 &&
                int(core::DType::bfloat16) == 3);
  return int(type);
}

}  // namespace annulus::kernels::host
