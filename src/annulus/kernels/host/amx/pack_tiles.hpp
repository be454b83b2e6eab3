// Packs rows of tensors as operands of the matrix unit, for C += A B (tile_registers.hpp). First operands (A) have 16
// rows of 16 words. Second operands (B) have 16 words of 16 columns; pack_side_by_side() puts two of them side by side,
// as 32 columns.
#pragma once

#include "annulus/kernels/host/amx/tile_registers.hpp"
#include "annulus/kernels/host/amx/weights.hpp"
#include "annulus/kernels/host/pack.hpp"

namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET {

/// Returns how many tiles the words of a row take: one for each 32 numbers. A tile of scores is the sum of as many
/// products.
constexpr int depth_tiles(int head_dim) { return (head_dim + kProductDepth - 1) / kProductDepth; }
/// Returns how many tiles of 16 columns the values have.
constexpr int column_tiles(int head_dim) { return (head_dim + kTileRows - 1) / kTileRows; }

/// pack_keys() packs keys as first operands of S^T = K Q^T: [key / 16][depth tile][16 keys][16 words]; zero beyond
/// head_dim, and after the last key up to a multiple of kMultiple keys. pack_key_row() packs one key.
ANNULUS_INLINE void pack_key_row(const BFloat16Bits* row, int head_dim, BFloat16Pair* to) {
  constexpr int n = kLanes<float>;
  const int depth = depth_tiles(head_dim);
  for (int k = 0; k < depth; ++k)
    for (int w = 0; w < kTileRows; w += n)
      store(to + k * kTileWords + w, load_words<BFloat16Pair>(row, k * kTileRows + w, head_dim));
}
template <int kMultiple>
void pack_keys(const void* const* rows, int count, int head_dim, BFloat16Pair* keys) {
  constexpr int ahead = 8;
  static constexpr BFloat16Bits none[kMaxMatrixDim] = {};
  const int depth = depth_tiles(head_dim);
  for (int i = 0; i < round_up(count, kMultiple); ++i) {
    if (i + ahead < count) prefetch_rows<BFloat16Bits>(rows + i + ahead, 1, head_dim);
    const auto* const row = i < count ? static_cast<const BFloat16Bits*>(rows[i]) : none;
    pack_key_row(row, head_dim, keys + i / kTileRows * depth * kTileWords + i % kTileRows * kTileRows);
  }
}

/// Packs columns d ... d + 15 of 32 rows: [16 columns][16 words]; word i has the numbers of rows 2 i and 2 i + 1.
ANNULUS_INLINE void pack_columns(const void* const* rows, int d, int head_dim, FiniteCheck<BFloat16Pair>& finite,
                                 BFloat16Pair* to) {
  constexpr int n = kLanes<float>;
  for (int column = 0; column < kTileRows; column += n)
    for (int pair = 0; pair < kTileRows; pair += n) {
      Floats a[n];
#pragma GCC unroll 16
      for (int i = 0; i < n; ++i) {
        const auto* const even = static_cast<const BFloat16Bits*>(rows[2 * (pair + i)]);
        const auto* const odd = static_cast<const BFloat16Bits*>(rows[2 * (pair + i) + 1]);
        const Pairs words = pair_up(odd, even, d + column, head_dim);
        finite.take(words);
        a[i] = bits_as<Floats>(words);
      }
      transpose<float>(a);
#pragma GCC unroll 16
      for (int i = 0; i < n; ++i) store(to + (column + i) * kTileRows + pair, a[i]);
    }
}

/// Packs values as first operands of O^T += V^T P^T: [step][column tile][2 products][16 columns][16 words of two keys];
/// zero beyond head_dim, and after the last key up to a whole step. Returns whether all numbers are finite.
inline bool pack_value_tiles(const void* const* rows, int count, int head_dim, int /*capacity*/, BFloat16Pair* values) {
  static constexpr BFloat16Bits none[kMaxMatrixDim] = {};
  FiniteCheck<BFloat16Pair> finite;
  const int columns = column_tiles(head_dim);
  for (int first = 0; first < count; first += kStepKeys, values += columns * 2 * kTileWords) {
    const void* some[kStepKeys];
    for (int i = 0; i < kStepKeys; ++i) some[i] = first + i < count ? rows[first + i] : none;
    if (first + 2 * kStepKeys <= count) prefetch_rows<BFloat16Bits>(rows + first + kStepKeys, kStepKeys, head_dim);
    for (int d = 0; d < columns; ++d)
      for (int product = 0; product < 2; ++product)
        pack_columns(some + product * kProductDepth, d * kTileRows, head_dim, finite,
                     values + (d * 2 + product) * kTileWords);
  }
  return finite.holds();
}

}  // namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET
