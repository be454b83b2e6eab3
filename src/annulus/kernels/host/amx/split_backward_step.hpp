// Makes P and dS from S and dP, for a block of 32 keys and 32 rows of the backward pass with numbers in parts
// (split.hpp), and defines the block's memory.
#pragma once

#include "annulus/kernels/host/amx/backward_blocks.hpp"
#include "annulus/kernels/host/amx/split_pack.hpp"
#include "annulus/kernels/host/amx/tables.hpp"

namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET {

constexpr int kBlockNumbers = kBlockKeys * kStepRows;  // numbers of P, or of dS, in a block
/// Calls of weigh_pair_of_keys() that a block takes.
constexpr int kUnits = kBlockKeys / 2 * kTileVectors;

/// P and dS of a block as first operands: [2 tiles of keys][part][16 keys][32 rows].
template <int kParts>
struct Factors {
  alignas(64) std::uint16_t p[kParts * kBlockNumbers];
  alignas(64) std::uint16_t ds[kParts * kBlockNumbers];
};

/// Memory that every block uses again.
template <int kParts>
struct SplitBlockMemory {
  /// [2 tiles of keys][2 halves of rows][16 keys][16 rows]
  alignas(64) float scores[kBlockNumbers];
  alignas(64) float dp[kBlockNumbers];
  Factors<kParts> factors[2];  // of this block and of the block before
  /// dK and dV of the block's keys; see Blocks::enter_keys().
  alignas(64) float dk[kBlockKeys * kMaxMatrixDim];
  alignas(64) float dv[kBlockKeys * kMaxMatrixDim];
};

/// Makes P and dS of the block's keys 2 u and 2 u + 1 (u = 0 ... 15), for vector v of each half of the rows.
template <int kParts, bool kMasked>
ANNULUS_INLINE_BESIDE void weigh_pair_of_keys(const Block& b, const SplitBlockMemory<kParts>& memory,
                                              Factors<kParts>& to, int u, int v) {
  constexpr int n = kLanes<float>;
  const int tile = u / 8, first_key = u % 8 * 2;
  Floats p[2][kHalves][kParts], ds[2][kHalves][kParts];
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i)
#pragma GCC unroll 2
    for (int h = 0; h < kHalves; ++h) {
      const int row = h * kTileRows + v * n;
      const int from = ((tile * kHalves + h) * kTileRows + first_key + i) * kTileRows + v * n;
      const Floats dp = load<Floats>(memory.dp + from);
      Floats power;
      Floats weight = exact_exp2(load<Floats>(memory.scores + from), load_unaligned<Floats>(b.shift + row), power);
      weight = weight * load_unaligned<Floats>(b.factors + row);
      Floats dscore = weight * (dp - load_unaligned<Floats>(b.delta + row));
      if constexpr (kMasked) {
        using Ints = Vec<std::int32_t>;
        const Ints key = Ints{} + (b.key + 2 * u + i);
        const auto seen = (key >= load_unaligned<Ints>(b.begin + row)) & (key < load_unaligned<Ints>(b.end + row));
        weight = seen ? weight : Floats{};
        dscore = seen ? dscore : Floats{};
      }
      split<kParts>(weight, p[i][h]);
      split<kParts>(dscore, ds[i][h]);
    }
#pragma GCC unroll 3
  for (int part = 0; part < kParts; ++part) {
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      const int at = (tile * kParts + part) * 2 * kTileWords + (first_key + i) * kStepRows + v * n;
      Rounded(p[i][1][part], p[i][0][part]).store_rows(to.p + at + kTileRows, to.p + at);
      Rounded(ds[i][1][part], ds[i][0][part]).store_rows(to.ds + at + kTileRows, to.ds + at);
    }
#pragma GCC unroll 2
    for (int h = 0; h < kHalves; ++h)
      store(b.kept_ds + (part * kHalves + h) * kTileWords + u * kTileRows + v * n,
            side_by_side(ds[0][h][part], ds[1][h][part]));
  }
}

}  // namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET
