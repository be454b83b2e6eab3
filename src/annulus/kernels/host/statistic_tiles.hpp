// Statistics of one pair of chunks, for the instruction set of the compilation; see TileFunctions::add_statistics.
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
