// Defines the sizes of register blocks and of padding for one instruction set and one type of words (words.hpp).
// tile_functions.hpp describes the panels that have these sizes.
#pragma once

#include "annulus/kernels/host/simd.hpp"

namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET {

/// MR: rows of a block of the backward pass. Registers hold MR x 2 vectors of sums, two vectors of the second factor
/// (such as keys), and one number of the first factor, broadcast to all lanes.
///   16 registers: 6 x 2 + 2 + 1 = 15.   32 registers: 12 x 2 + 2 + 1 = 27.
constexpr int kRowBlock = kVectorRegisters == 32 ? 12 : 6;

template <class T>
constexpr int kKeyBlock = 2 * kLanes<T>;  // NR: keys of a panel, or columns of a slab

/// Forward: query rows lie across the lanes. Registers hold a block of sums, the vectors of rows, and one number of a
/// key or value, broadcast to all lanes. A block has kQueryVectors vectors of rows and kScoreKeys keys (or columns of
/// the values).
///   16 registers: 2 x 6 + 2 + 1 = 15.   32 registers: 3 x 8 + 3 + 1 = 28.
constexpr int kQueryVectors = kVectorRegisters == 32 ? 3 : 2;
constexpr int kScoreKeys = kVectorRegisters == 32 ? 8 : 6;

template <class T>
constexpr int kQueryBlock = kQueryVectors* kLanes<T>;  // W: rows of a block of scores

/// The number of columns of accumulators is a multiple of this, because the multiply-adds of a single column would wait
/// for each other.
constexpr int kColumnStep = 2;

/// G: rows of a group (QueryPanels), 48 in float and 24 in double, so that one number for each row takes three cache
/// lines. These rows fill whole query blocks in every instruction set: they are 3 vectors on AVX-512, 6 on AVX2, 12 on
/// NEON and SSE2.
template <class T>
constexpr int kGroupRows = 192 / int(sizeof(Number<T>));
template <class T>
constexpr int kGroupVectors = kGroupRows<T> / kLanes<T>;
static_assert(kGroupVectors<float> % kQueryVectors == 0 && kGroupVectors<double> % kQueryVectors == 0);

constexpr int greatest_divisor(int a, int b) { return b == 0 ? a : greatest_divisor(b, a % b); }

/// Keys of a strip. In float, the scores of a strip for the 48 rows of a group take 18 KiB of the first-level cache.
constexpr int kStripKeys = 96;

/// Backward: keys of a tile, a multiple of MR and NR. Only one tile at a time has P and dS (backward_chunks.hpp) in
/// memory.
constexpr int kTileKeys = 96;

/// Words from one row of P (or dS) to the next. They fill an odd number of cache lines (7 in float, 13 in double), so
/// that the numbers of a column lie in many sets of the first-level cache.
template <class T>
constexpr int kStripStride = kTileKeys + 64 / int(sizeof(T));

/// The number of keys of a backward task is a multiple of this (96, 48, 24 or 12), unless the item ends earlier. NR is
/// a multiple of 4, so 3 NR is a multiple of both NR and MR (6 or 12).
template <class T>
constexpr int kKeyStep = 3 * kKeyBlock<T>;
static_assert(kKeyStep<float> % kRowBlock == 0 && kKeyStep<double> % kRowBlock == 0);
static_assert(kTileKeys % kRowBlock == 0 && kTileKeys % kKeyBlock<float> == 0);
// Blocks of these sizes must fill whole words, and a word may be a pair.
static_assert(kScoreKeys % 2 == 0 && kStripKeys % 2 == 0 && kRowBlock % 2 == 0);

/// How many steps of the inner loops are unrolled by hand. In the backward pass a loop's count is padded to a multiple
/// of this, so the last steps may add zeros.
template <class T>
constexpr int kUnroll = kLanes<T> / kPerWord<T> < 4 ? kLanes<T> / kPerWord<T> : 4;

/// How many query rows kUnroll steps add.
template <class T>
constexpr int kUnrolledRows = kUnroll<T>* kPerWord<T>;

/// Backward: the number of query rows is padded to a multiple of kRowStep. kRowStep (12 or 24) is the least common
/// multiple of 12 and kUnrolledRows, so MR (6 or 12) divides kRowStep.
template <class T>
constexpr int kRowStep = 12 * kUnrolledRows<T> / greatest_divisor(12, kUnrolledRows<T>);
static_assert(12 % kRowBlock == 0);

constexpr int round_up(int n, int step) { return (n + step - 1) / step * step; }
constexpr int at_least(int x, int least) { return x < least ? least : x; }
constexpr int at_most(int x, int most) { return x > most ? most : x; }

template <class T>
constexpr int row_words(int head_dim) {
  return (head_dim + kPerWord<T> - 1) / kPerWord<T>;
}
/// Returns how many words a row takes in the panels of the backward pass, with padding.
template <class T>
constexpr int padded_depth(int head_dim) {
  return round_up(row_words<T>(head_dim), kUnroll<T>);
}
/// Returns how many slabs of kKeyBlock columns the accumulators of the backward pass have.
template <class T>
constexpr int slab_count(int head_dim) {
  return (head_dim + kKeyBlock<T> - 1) / kKeyBlock<T>;
}

}  // namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET
