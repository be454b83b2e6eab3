// Register block and padding of one instruction set and arithmetic type; see QueryPanels and KeyTile for the panels.
#pragma once

#include "annulus/kernels/host/simd.hpp"

namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET {

/// Block of MR rows x 2 vectors of accumulators; two vectors of keys (or values) and a broadcast number beside them.
///   16 registers: 6 x 2 + 2 + 1 = 15.   32 registers: 12 x 2 + 2 + 1 = 27.
constexpr int kRowBlock = kVectorRegisters == 32 ? 12 : 6;

template <class T>
constexpr int kKeyBlock = 2 * kLanes<T>;

/// Steps of the inner loops unrolled by hand: they run over whole multiples, over zeros at the end.
template <class T>
constexpr int kUnroll = kLanes<T> < 4 ? kLanes<T> : 4;

/// Keys of a tile at most: a strip of MR rows of scores, 6 to 12 KiB, stays in the first-level cache.
template <class T>
constexpr int kMaxKeys = kRowBlock == 12 && sizeof(T) == 8 ? 128 : 256;

constexpr int round_up(int n, int step) { return (n + step - 1) / step * step; }

template <class T>
constexpr int padded_depth(int head_dim) {
  return round_up(head_dim, kUnroll<T>);
}
/// Slabs of kKeyBlock columns of the values and the accumulator.
template <class T>
constexpr int slab_count(int head_dim) {
  return (head_dim + kKeyBlock<T> - 1) / kKeyBlock<T>;
}

}  // namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET
