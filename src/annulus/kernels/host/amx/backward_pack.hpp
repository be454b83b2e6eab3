// Packs operands of the matrix unit's backward pass, and loads and stores sums of gradients (QueryChunk, KeyChunk).
#pragma once

#include "annulus/kernels/host/amx/pack_tiles.hpp"

namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET {

/// Returns how many columns operands and sums have: head_dim, rounded up to a multiple of 32, that is two tiles of
/// columns.
constexpr int padded_columns(int head_dim) { return depth_tiles(head_dim) * kProductDepth; }

/// Packs rows of K (or V) as first operands of S^T (or dP^T); see pack_keys().
inline void pack_key_panels(const void* const* rows, std::int64_t count, int head_dim, float, BFloat16Pair* to) {
  pack_keys<kProductDepth>(rows, int(count), head_dim, to);
}

/// Packs K as first operand of dQ^T: [key / 32][column tile][16 columns][16 words of two keys]. Returns whether all
/// numbers are finite.
inline bool pack_key_columns(const void* const* rows, int count, int head_dim, int, const RowFactors<float>&,
                             BFloat16Pair* to) {
  FiniteCheck<BFloat16Pair> finite;
  const int columns = padded_columns(head_dim);
  for (int first = 0; first < count; first += kProductDepth)
    for (int d = 0; d < columns; d += kTileRows, to += kTileWords) pack_columns(rows + first, d, head_dim, finite, to);
  return finite.holds();
}

/// Packs Q (or dout) as second operand of S^T (or dP^T): [row / 32][word][32 rows]. Returns whether all numbers are
/// finite.
inline bool pack_query_words(const void* const* rows, int count, int head_dim, int, const RowFactors<float>&,
                             BFloat16Pair* to) {
  pack_side_by_side<BFloat16Pair, BFloat16Bits, kStepRows, kTileRows>(rows, count, head_dim, 1, to);
  FiniteCheck<BFloat16Pair> finite;
  const std::int64_t words = std::int64_t(count) * depth_tiles(head_dim) * kTileRows;
  for (std::int64_t i = 0; i < words; i += kLanes<float>) finite.take(load<Pairs>(to + i));
  return finite.holds();
}

/// Packs Q (or dout) as second operand of dK (or dV): [row / 32][column tile][16 words of two rows][16 columns].
inline bool pack_query_rows(const void* const* rows, int count, int head_dim, int, const RowFactors<float>&,
                            BFloat16Pair* to) {
  constexpr int n = kLanes<float>;
  const int columns = padded_columns(head_dim);
  for (int first = 0; first < count; first += kProductDepth)
    for (int d = 0; d < columns; d += kTileRows)
      for (int pair = 0; pair < kTileRows; ++pair)
        for (int v = 0; v < kTileRows; v += n, to += n) {
          const auto* const even = static_cast<const BFloat16Bits*>(rows[first + 2 * pair]);
          const auto* const odd = static_cast<const BFloat16Bits*>(rows[first + 2 * pair + 1]);
          store(to, pair_up(odd, even, d + v, head_dim));
        }
  return true;  // pack_query_words() has checked the same numbers
}

/// Returns the index of row i (of 32) in dQ^T, and in the dS from which dQ^T is made. One instruction makes words of
/// two keys for half of the rows: 0 to 3, 8 to 11, 16 to 19 and 24 to 27. These rows come first, the others after them.
constexpr int index_of_row(int i) { return i / 4 % 2 * kTileRows + i / 8 * 4 + i % 4; }

/// Addresses of a group's 32 rows in the order of index_of_row(). Rows from number `count` on have the address `none`.
template <class T>
struct OrderedRows {
  T* rows[kStepRows];
  OrderedRows(T* const* from, std::int64_t count, T* none) {
    for (int i = 0; i < kStepRows; ++i) rows[index_of_row(i)] = i < count ? from[i] : none;
  }
};
/// load_query_sums() and store_query_sums() copy sums from rows of dq to dQ^T, and back. The layout of dQ^T is
/// [row / 32][column][32 rows], where rows have the order of index_of_row().
inline void load_query_sums(const float* const* rows, std::int64_t count, std::int64_t padded, int head_dim,
                            float* sums) {
  const std::int64_t group = std::int64_t(padded_columns(head_dim)) * kStepRows;
  for (std::int64_t first = 0; first < padded; first += kStepRows, sums += group) {
    const OrderedRows<const float> ordered(rows + first, count - first, nullptr);
    load_columns<float, kStepRows, kProductDepth>(ordered.rows, kStepRows, kStepRows, head_dim, sums);
  }
}
inline void store_query_sums(const float* sums, std::int64_t count, int head_dim, float* const* rows) {
  float unused[kMaxMatrixDim];
  const std::int64_t group = std::int64_t(padded_columns(head_dim)) * kStepRows;
  for (std::int64_t first = 0; first < count; first += kStepRows, sums += group) {
    const OrderedRows<float> ordered(rows + first, count - first, unused);
    store_columns<float, kStepRows, kProductDepth>(sums, kStepRows, head_dim, ordered.rows);
  }
}

/// Returns where key i begins in sums of dK (or dV), [key / 16][column tile][16 keys][16 columns].
template <class N>
ANNULUS_INLINE N* key_sum_row(N* sums, std::int64_t i, int columns) {
  return sums + i / kTileRows * kTileRows * columns + i % kTileRows * kTileRows;
}
inline void load_key_sums(const float* const* rows, std::int64_t count, std::int64_t padded, int head_dim,
                          float* sums) {
  constexpr int n = kLanes<float>, ahead = 8;
  const int columns = padded_columns(head_dim);
  for (std::int64_t i = 0; i < padded; ++i) {
    if (i + ahead < count) prefetch_rows<float>(reinterpret_cast<const void* const*>(rows + i + ahead), 1, head_dim);
    float* const to = key_sum_row(sums, i, columns);
    for (int d = 0; d < columns; d += n) {
      const int rest = i < count && d < head_dim ? head_dim - d : 0;
      store(to + d / kTileRows * kTileWords + d % kTileRows,
            rest > 0 ? load_some_as<float>(rows[i] + d, rest) : Floats{});
    }
  }
}
inline void store_key_sums(const float* sums, std::int64_t count, int head_dim, float* const* rows) {
  constexpr int n = kLanes<float>;
  for (std::int64_t i = 0; i < count; ++i) {
    const float* const from = key_sum_row(sums, i, padded_columns(head_dim));
    for (int d = 0; d < head_dim; d += n)
      store_some(rows[i] + d, load<Floats>(from + d / kTileRows * kTileWords + d % kTileRows), head_dim - d);
  }
}

}  // namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET
