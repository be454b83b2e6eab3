// Computes the forward pass of one tile of keys, in the instruction set that the compiler's flags choose. TileFunctions
// describes these functions.
#pragma once

#include "annulus/kernels/host/layout.hpp"
#include "annulus/kernels/host/tile_functions.hpp"

namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET {

/// T is float, double or BFloat16Pair.
template <class T, bool kEntropy>
void add_tile(const QueryPanels<T>& panels, const KeyTile<T>& tile, Number<T>* scores);
template <class T, bool kEntropy>
void add_ruled_tile(const QueryPanels<T>& panels, const KeyTile<T>& tile, Number<T>* scores);

}  // namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET
