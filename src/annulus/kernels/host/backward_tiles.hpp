// Computes gradients for a chunk of rows and a chunk of keys, in the instruction set that the compiler's flags choose.
// TileFunctions describes these functions.
#pragma once

#include "annulus/kernels/host/layout.hpp"
#include "annulus/kernels/host/tile_functions.hpp"

namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET {

/// T is float, double or BFloat16Pair.
template <class T>
void add_chunks(const QueryChunk<T>& q, const KeyChunk<T>& k, const Strips<T>& strips);
template <class T>
void add_ruled_chunks(const QueryChunk<T>& q, const KeyChunk<T>& k, const Strips<T>& strips);

}  // namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET
