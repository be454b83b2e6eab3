// Splits rows of float32 or float16 into parts (split.hpp) and packs them as operands of the matrix unit. Layouts are
// those of pack_tiles.hpp and backward_pack.hpp with one more index, the part.
#pragma once

#include "annulus/kernels/host/amx/split.hpp"

namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET {

/// True if no lane is NaN. Lanes are sums of x - x, which is 0 for finite x, otherwise NaN; a sum with NaN is NaN.
ANNULUS_INLINE bool is_zero(Floats differences) {
  for (int i = 0; i < kLanes<float>; ++i)
    if (differences[i] != 0) return false;
  return true;
}

ANNULUS_INLINE std::uint16_t* halves_of(BFloat16Pair* words) { return reinterpret_cast<std::uint16_t*>(words); }

/// Packs rows as first operands: [row / 16][depth tile][part][16 rows][16 words]; zero beyond head_dim, and for rows
/// from `count` to `padded`.
template <class Storage, int kParts>
ANNULUS_INLINE void pack_first_operands(const void* const* rows, std::int64_t count, std::int64_t padded, int head_dim,
                                        BFloat16Pair* to) {
  constexpr int n = kLanes<float>, ahead = 8;
  const int depth = depth_tiles(head_dim);
  for (std::int64_t i = 0; i < padded; ++i) {
    if (i + ahead < count) prefetch_rows<Storage>(rows + i + ahead, 1, head_dim);
    BFloat16Pair* const row_of_tile = to + i / kTileRows * depth * kParts * kTileWords + i % kTileRows * kTileRows;
    for (int k = 0; k < depth; ++k)
      for (int d = 0; d < kProductDepth; d += 2 * n) {
        Floats first[kParts] = {}, second[kParts] = {};
        if (i < count) {
          const auto* const row = static_cast<const Storage*>(rows[i]);
          load_parts<Storage, kParts>(row, k * kProductDepth + d, head_dim, 1, first);
          load_parts<Storage, kParts>(row, k * kProductDepth + d + n, head_dim, 1, second);
        }
        for (int part = 0; part < kParts; ++part)
          store_parts(halves_of(row_of_tile + (k * kParts + part) * kTileWords) + d, first[part], second[part]);
      }
  }
}

/// Packs rows as second operands: [row / 32][part][word][32 rows]; `count` is a multiple of 32. Numbers are multiplied
/// by `factor`. Returns whether all numbers are finite.
template <class Storage, int kParts>
ANNULUS_INLINE bool pack_words_of_rows(const void* const* rows, std::int64_t count, int head_dim, float factor,
                                       BFloat16Pair* to) {
  constexpr int n = kLanes<float>;
  const int words = depth_tiles(head_dim) * kTileRows;
  Floats differences{};
  for (std::int64_t first = 0; first < count; first += n) {
    if (first + 2 * n <= count) prefetch_rows<Storage>(rows + first + n, n, head_dim);
    BFloat16Pair* const group = to + first / kStepRows * kStepRows * words * kParts + first % kStepRows;
    for (int w = 0; w < words; w += n) {
      Floats a[kParts][n];
      for (int i = 0; i < n; ++i) {
        const auto* const row = static_cast<const Storage*>(rows[first + i]);
        Floats low[kParts], high[kParts];
        load_parts<Storage, kParts>(row, 2 * w, head_dim, factor, low);
        load_parts<Storage, kParts>(row, 2 * w + n, head_dim, factor, high);
        differences = differences + (low[0] - low[0]) + (high[0] - high[0]);
        for (int part = 0; part < kParts; ++part) {
          alignas(64) std::uint16_t successive[2 * n];
          store_parts(successive, low[part], high[part]);
          a[part][i] = load<Floats>(successive);
        }
      }
      for (int part = 0; part < kParts; ++part) {
        transpose<float>(a[part]);
        for (int i = 0; i < n; ++i) store(group + (part * words + w + i) * kStepRows, a[part][i]);
      }
    }
  }
  return is_zero(differences);
}

/// Packs columns d ... d + 15 of 32 rows: [part][16 columns][16 words]; word i has the numbers of rows 2 i and 2 i + 1.
template <class Storage, int kParts>
ANNULUS_INLINE void pack_columns_in_parts(const void* const* rows, int d, int head_dim, Floats& differences,
                                          BFloat16Pair* to) {
  constexpr int n = kLanes<float>;
  for (int column = 0; column < kTileRows; column += n)
    for (int pair = 0; pair < kTileRows; pair += n) {
      Floats a[kParts][n];
      for (int i = 0; i < n; ++i) {
        Floats even[kParts], odd[kParts];
        load_parts<Storage, kParts>(static_cast<const Storage*>(rows[2 * (pair + i)]), d + column, head_dim, 1, even);
        load_parts<Storage, kParts>(static_cast<const Storage*>(rows[2 * (pair + i) + 1]), d + column, head_dim, 1,
                                    odd);
        differences = differences + (even[0] - even[0]) + (odd[0] - odd[0]);
        for (int part = 0; part < kParts; ++part) a[part][i] = bits_as<Floats>(side_by_side(even[part], odd[part]));
      }
      for (int part = 0; part < kParts; ++part) {
        transpose<float>(a[part]);
        for (int i = 0; i < n; ++i) store(to + part * kTileWords + (column + i) * kTileRows + pair, a[part][i]);
      }
    }
}

/// Packs columns d ... d + 15 of 32 rows: [part][16 words of rows 2 i and 2 i + 1][16 columns]. Numbers are multiplied
/// by `factor`.
template <class Storage, int kParts>
ANNULUS_INLINE void pack_row_pairs(const void* const* rows, int d, int head_dim, float factor, BFloat16Pair* to) {
  constexpr int n = kLanes<float>;
  for (int pair = 0; pair < kTileRows; ++pair)
    for (int column = 0; column < kTileRows; column += n) {
      Floats even[kParts], odd[kParts];
      load_parts<Storage, kParts>(static_cast<const Storage*>(rows[2 * pair]), d + column, head_dim, factor, even);
      load_parts<Storage, kParts>(static_cast<const Storage*>(rows[2 * pair + 1]), d + column, head_dim, factor, odd);
      for (int part = 0; part < kParts; ++part)
        store(to + part * kTileWords + pair * kTileRows + column, side_by_side(even[part], odd[part]));
    }
}

}  // namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET
