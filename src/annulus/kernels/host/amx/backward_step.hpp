// The backward pass on the matrix unit, block by block of 32 keys and 32 rows. As in the forward pass, a tile of scores
// has a key in each row and a query in each column: S^T = K Q^T and dP^T = V dout^T. So vector code makes P^T and dS^T
// in the form of the first operands of dV += P^T dout and dK += dS^T Q. It also writes dS in a second form, for the
// product dQ^T += K^T dS, which is computed later, for up to 256 keys at once.
#pragma once

#include "annulus/kernels/host/amx/backward_blocks.hpp"

namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET {

/// Memory that every block reads and writes: 44 KiB of the first-level cache at D = 128.
struct BlockMemory {
  /// [2 tiles of keys][2 halves of rows][16 keys][16 rows]
  alignas(64) float scores[kBlockKeys * kStepRows];
  alignas(64) float dp[kBlockKeys * kStepRows];
  /// [2 tiles of keys][16 keys][32 rows]
  alignas(64) std::uint16_t p[kBlockKeys * kStepRows];
  alignas(64) std::uint16_t ds[kBlockKeys * kStepRows];
  /// dK and dV of the block's keys: [column tile][2 tiles of keys][16 keys][16 columns]; see Blocks::enter_keys().
  alignas(64) float dk[kBlockKeys * kMaxMatrixDim];
  alignas(64) float dv[kBlockKeys * kMaxMatrixDim];
};

/// Returns 2^x; NaN stays NaN. The relative error of 1e-4 is small compared with the rounding to bfloat16. floor(x)
/// goes into the exponent; results below 2^-126 become 0, because denormal numbers are flushed to zero.
ANNULUS_INLINE Floats exp2_of_difference(Floats x) {
  Floats whole;
  const Floats r = fraction_of(x, whole);
  Floats p = fused(broadcast(0.077067043f), r, broadcast(0.22764499f));
  p = fused(fused(p, r, broadcast(0.69511679f)), r, broadcast(1.f));
#if !defined(__AVX512F__)
  whole = larger(broadcast(-200.f), whole);
#endif
  return times_power_of_two(p, whole);
}

/// Stores one key's 32 numbers, x[half][vector], one for each row of a block, rounded to bfloat16.
ANNULUS_INLINE void store_rounded(std::uint16_t* to, const Floats (&x)[kHalves][kTileVectors]) {
#pragma GCC unroll 4
  for (int v = 0; v < kTileVectors; ++v) {
    const Rounded both(x[1][v], x[0][v]);
#if defined(__AVX512BF16__)
    store(to, both.rows);
#else
    both.store_rows(to + kTileRows + v * kLanes<float>, to + v * kLanes<float>);
#endif
  }
}

/// Stores the rounded dS of two keys as 32 words, one for each row. The word of row i is at index_of_row(i).
ANNULUS_INLINE void store_key_pairs(BFloat16Pair* to, const std::uint16_t* low, const std::uint16_t* high) {
#if defined(__AVX512BW__)
  const auto x = load<__m512i>(low), y = load<__m512i>(high);
  store(to, _mm512_unpacklo_epi16(x, y));
  store(to + kTileWords, _mm512_unpackhi_epi16(x, y));
#else
  for (int row = 0; row < kStepRows; ++row) {
    const int index = index_of_row(row);
    to[index / kTileRows * kTileWords + index % kTileRows].bits = low[row] | std::uint32_t(high[row]) << 16;
  }
#endif
}

/// Numbers of a block's rows for weigh_block_pair(). In code for the matrix unit they stay in registers. If they were
/// read from memory, they would be read again after each statement of TileRegisters, because the compiler must assume
/// that such a statement changes memory.
struct BlockRows {
  Floats shift[kHalves][kTileVectors], delta[kHalves][kTileVectors], factors[kHalves][kTileVectors];
};

/// Computes P and dS of the block's keys 2 u and 2 u + 1 (u = 0 ... 15), for all rows.
template <int u, bool kMasked>
ANNULUS_INLINE_BESIDE void weigh_block_pair(const Block& b, const BlockRows& rows, BlockMemory& memory, Floats factor) {
  constexpr int n = kLanes<float>, at = (u / 8 * kHalves * kTileRows + u % 8 * 2) * kTileRows;
  Floats p[2][kHalves][kTileVectors], ds[2][kHalves][kTileVectors];
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i)
#pragma GCC unroll 2
    for (int h = 0; h < kHalves; ++h)
#pragma GCC unroll 4
      for (int v = 0; v < kTileVectors; ++v) {
        const int row = h * kTileRows + v * n, from = at + (h * kTileRows + i) * kTileRows + v * n;
        const Floats score = load<Floats>(memory.scores + from), dp = load<Floats>(memory.dp + from);
        Floats weight = exp2_of_difference(fused_minus(score, factor, rows.shift[h][v]));
        weight = weight * rows.factors[h][v];
        Floats dscore = weight * (dp - rows.delta[h][v]);
        if constexpr (kMasked) {
          using Ints = Vec<std::int32_t>;
          const Ints key = Ints{} + (b.key + 2 * u + i);
          const auto seen = (key >= load_unaligned<Ints>(b.begin + row)) & (key < load_unaligned<Ints>(b.end + row));
          weight = seen ? weight : Floats{};
          dscore = seen ? dscore : Floats{};
        }
        p[i][h][v] = weight;
        ds[i][h][v] = dscore;
      }
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    store_rounded(memory.p + (2 * u + i) * kStepRows, p[i]);
    store_rounded(memory.ds + (2 * u + i) * kStepRows, ds[i]);
  }
  const std::uint16_t* const rounded = memory.ds + 2 * u * kStepRows;
  store_key_pairs(b.kept_ds + u * kTileRows, rounded, rounded + kStepRows);
}

/// Computes one share of a block's P and dS, number i of `until`, while product number i runs. Products from number
/// `until` on run alone. For the reason given at weigh_beside(), this is not a lambda.
template <int i, int until, bool kMasked>
ANNULUS_INLINE void weigh_block_beside(const Block& b, const BlockRows& rows, BlockMemory& memory, Floats factor) {
  constexpr int units = kBlockKeys / 2, begin = i * units / until, end = i < until ? (i + 1) * units / until : begin;
  times<end - begin>([&]<int u>()
                         ANNULUS_INLINE_MEMBER { weigh_block_pair<begin + u, kMasked>(b, rows, memory, factor); });
}

/// Does three things at once. It adds block `before`, whose P and dS are in memory, to dV and dK. It replaces this P
/// and dS by those of `now`, made from S^T and dP^T. It replaces this S^T and dP^T by those of `next`; dP^T stays in
/// registers 0 to 3 until the next call. With D = 64, dV and dK take 16 products, S^T takes 8 and dP^T 8. P and dS of
/// 16 pairs of keys are made while the first 24 products run. Without kAdds block `before` is not added.
template <int kDepth, bool kMasked, bool kAdds>
__attribute__((noinline)) void advance_block(TileRegisters& tiles, BlockMemory& memory, const Block& next,
                                             const Block& now, const Block& before, float score_factor) {
  constexpr int sums = kAdds ? 8 * kDepth : 0, until = sums + 4 * kDepth;
  const Floats factor = broadcast(score_factor);
  BlockRows rows;
#pragma GCC unroll 2
  for (int h = 0; h < kHalves; ++h)
#pragma GCC unroll 4
    for (int v = 0; v < kTileVectors; ++v) {
      const int row = h * kTileRows + v * kLanes<float>;
      rows.shift[h][v] = load_unaligned<Floats>(now.shift + row);
      rows.delta[h][v] = load_unaligned<Floats>(now.delta + row);
      rows.factors[h][v] = load_unaligned<Floats>(now.factors + row);
    }
  // These addresses stay in registers, for the reason given at BlockRows.
  const BFloat16Pair *const keys = next.keys, *const queries = next.queries, *const values = next.values,
                            *const dout = next.dout, *const added_dout = before.added_dout,
                            *const added_queries = before.added_queries;
  times<4>([&]<int i>() ANNULUS_INLINE_MEMBER { tiles.template store<i>(memory.dp + i * kTileWords); });
  if constexpr (kAdds) {
    times<2>([&]<int t>() ANNULUS_INLINE_MEMBER {
      tiles.template load<4 + t>(memory.p + t * 2 * kTileWords);
      tiles.template load<6 + t>(memory.ds + t * 2 * kTileWords);
    });
    times<2 * kDepth>([&]<int d>() ANNULUS_INLINE_MEMBER {
      tiles.template stream<2>(added_dout + d * kTileWords);
      tiles.template stream<3>(added_queries + d * kTileWords);
      times<4>([&]<int i>() ANNULUS_INLINE_MEMBER {
        tiles.template load<i % 2>((i < 2 ? memory.dv : memory.dk) + (d * 2 + i % 2) * kTileWords);
        tiles.template multiply<i % 2, 4 + i, 2 + i / 2>();
        // A store that waits for its product would fill the processor's scheduler, so stores come one product later.
        if constexpr (i > 0) {
          tiles.template store<1 - i % 2>((i < 3 ? memory.dv : memory.dk) + (d * 2 + 1 - i % 2) * kTileWords);
        } else if constexpr (d > 0) {
          tiles.template store<1>(memory.dk + (d * 2 - 1) * kTileWords);
        }
        weigh_block_beside<d * 4 + i, until, kMasked>(now, rows, memory, factor);
      });
    });
  }
  const auto make = [&]<int first>(const BFloat16Pair* a, const BFloat16Pair* b) ANNULUS_INLINE_MEMBER {
    times<kDepth>([&]<int k>() ANNULUS_INLINE_MEMBER {
      const BFloat16Pair* const words = b + k * kTileRows * kStepRows;
      const auto product = [&]<int i>() ANNULUS_INLINE_MEMBER {
        if constexpr (k == 0) {  // an earlier result in the register is stored first
          if constexpr (first == sums && kAdds && i == 1)
            tiles.template store<1>(memory.dk + (4 * kDepth - 1) * kTileWords);
          if constexpr (first > sums) tiles.template store<i>(memory.scores + i * kTileWords);
          tiles.template zero<i>();
        }
        tiles.template multiply<i, 4 + i / 2, 6 + i % 2>();
        weigh_block_beside<first + k * 4 + i, until, kMasked>(now, rows, memory, factor);
      };
      tiles.template stream<4>(a + k * kTileWords);
      tiles.template stream<6>(words, kGroupStride);
      product.template operator()<0>();
      tiles.template stream<7>(words + kTileRows, kGroupStride);
      product.template operator()<1>();
      tiles.template stream<5>(a + (kDepth + k) * kTileWords);
      product.template operator()<2>();
      product.template operator()<3>();
    });
  };
  make.template operator()<sums>(keys, queries);
  make.template operator()<sums + 4 * kDepth>(values, dout);
}

}  // namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET
