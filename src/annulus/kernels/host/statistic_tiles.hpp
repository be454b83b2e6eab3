// Computes statistics for a chunk of rows and a chunk of keys, in the instruction set that the compiler's flags choose.
// TileFunctions describes these functions.
#pragma once

#include "annulus/kernels/host/layout.hpp"
#include "annulus/kernels/host/tile_functions.hpp"

namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET {

/// T is float, double or BFloat16Pair.
template <class T>
void add_statistics(const ScoreRows<T>& q, const ScoreKeys<T>& k, const StatisticSums<Number<T>>& sums);
template <class T>
void add_ruled_statistics(const ScoreRows<T>& q, const ScoreKeys<T>& k, const StatisticSums<Number<T>>& sums);

}  // namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET
