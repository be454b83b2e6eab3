// The forward pass on the matrix unit, step by step: S^T = K Q^T and O^T += V^T P^T for 64 keys and 32 rows. A tile of
// scores has a key in each row and a query in each column. So P^T, which vector code makes from S^T, already has the
// form of a second operand, and no number moves across lanes.
#pragma once

#include "annulus/kernels/host/amx/pack_tiles.hpp"

namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET {

/// Addresses for a group of 32 rows and 64 keys. m, l and accumulators of the rows stay in the panels (QueryPanels).
struct Step {
  const BFloat16Pair* keys;     // [4][depth tile][16 keys][16 words]
  const BFloat16Pair* values;   // [column tile][2 products][16 columns][16 words]
  const BFloat16Pair* queries;  // [word][32 rows]
  float* acc;                   // [column][32 rows]
  float* sum;                   // [32 rows] l
  float* max;                   // [32 rows] m
  std::int64_t row;             // number of the group's first row
  int first_key;                // number of the step's first key in its tile of keys
  bool is_masked;               // some row does not see all 64 keys
};

/// A first operand whose numbers are all 1 (bfloat16). Every row of its product with the weights has the sum of each
/// query row's rounded weights.
struct Ones {
  alignas(64) std::uint16_t number[2 * kTileWords];
  consteval Ones() : number() {
    for (std::uint16_t& x : number) x = 0x3f80;
  }
};
constexpr Ones kOnes;

/// The address at which the tile in register 1 must still be stored. With more than two depth tiles (kTwoLate), the
/// tile in register 0 must also be stored, kTileWords numbers before this address. Such tiles are stored while the next
/// product runs, because a store that waits for its product would fill the processor's scheduler, and no later
/// instruction could start.
struct LateStore {
  float* to;
  long stride;
};

template <int kDepthTiles>
constexpr bool kTwoLate = kDepthTiles > 2;

template <int kColumnTiles>
constexpr int kDepthOf = (kColumnTiles + 1) / 2;

/// Writes S^T, four by two tiles, to `scores`. In names, "plainly" means without other work beside the products.
ANNULUS_INLINE void add_scores_plainly(TileRegisters& tiles, const Step& step, int depth, float* scores) {
  for (int t = 0; t < 4; ++t)
    for (int h = 0; h < kHalves; ++h) {
      tiles.zero<0>();
      for (int k = 0; k < depth; ++k) {
        tiles.load<2>(step.keys + (t * depth + k) * kTileWords);
        tiles.load<4>(step.queries + k * kTileRows * kStepRows + h * kTileRows, kGroupStride);
        tiles.multiply<0, 2, 4>();
      }
      tiles.store<0>(scores + (t * kHalves + h) * kTileWords);
    }
}

/// Adds the step's two products to one tile of O^T, or to l. For l the stride is 0, so that all rows of the tile are
/// the same memory.
ANNULUS_INLINE void add_values_plainly(TileRegisters& tiles, const BFloat16Pair* values, int product_stride,
                                       const BFloat16Pair* weights, float* to, long stride) {
  tiles.load<0>(to, stride);
  tiles.load<2>(values);
  tiles.load<3>(values + product_stride);
  tiles.load<4>(weights);
  tiles.load<6>(weights + kHalves * kTileWords);
  tiles.multiply<0, 2, 4>();
  tiles.multiply<0, 3, 6>();
  tiles.store<0>(to, stride);
}
ANNULUS_INLINE const BFloat16Pair* ones() {
  return static_cast<const BFloat16Pair*>(static_cast<const void*>(kOnes.number));
}
ANNULUS_INLINE void add_sums_plainly(TileRegisters& tiles, const Step& step, const BFloat16Pair* weights) {
  for (int h = 0; h < kHalves; ++h)
    add_values_plainly(tiles, ones(), 0, weights + h * kTileWords, step.sum + h * kTileRows, 0);
}
ANNULUS_INLINE void add_step_plainly(TileRegisters& tiles, const Step& step, int columns, const BFloat16Pair* weights) {
  for (int d = 0; d < columns; ++d)
    for (int h = 0; h < kHalves; ++h)
      add_values_plainly(tiles, step.values + d * 2 * kTileWords, kTileWords, weights + h * kTileWords,
                         step.acc + d * kTileRows * kStepRows + h * kTileRows, kGroupStride);
  add_sums_plainly(tiles, step, weights);
}

/// Stores the tiles that registers still hold. Then all scores are in memory. `two`: kTwoLate.
ANNULUS_INLINE void flush(TileRegisters& tiles, bool two, const LateStore& late) {
  if (two) tiles.store<0>(late.to - kTileWords, late.stride);
  tiles.store<1>(late.to, late.stride);
}

/// Computes one share of a step's weights, number i of `all`, while product number i runs. This is a function, not a
/// lambda of advance(), because GCC 12 would keep the Weigher in memory, not in registers, if a second closure referred
/// to it.
template <int i, int all>
ANNULUS_INLINE void weigh_beside(StepMemory& memory, Weigher& weigher) {
  constexpr int units = kStepKeys / 2, begin = i * units / all, end = (i + 1) * units / all;
  times<end - begin>([&]<int u>() ANNULUS_INLINE_MEMBER { weigh_pair<begin + u>(memory, weigher); });
}

/// Does three things at once, interleaved in the source. It adds step `before`, whose weights are in memory, to O^T
/// and l. It replaces these weights by those of `now`, made from the scores in memory, and these scores by those of
/// `next`. Matrix unit and vectors work at the same time; in a step neither waits for the other. Products at D = 64:
///   0 ... 19   O^T and l, (4 tiles of columns + l) x 2 halves of rows x 2 products
///   20 ... 35  S^T, 4 tiles of keys x 2 halves x 2 depth tiles; weights of 32 pairs of keys are made beside all 36
/// Returns whether some weight of `now` needs weigh_with_care().
template <int kColumnTiles>
__attribute__((noinline)) bool advance(TileRegisters& tiles, StepMemory& memory, const Step& next, const Step& now,
                                       const Step& before, float factor, LateStore& late_store) {
  constexpr int depth = kDepthOf<kColumnTiles>, value_products = 4 * (kColumnTiles + 1),
                all = value_products + 8 * depth;
  Weigher weigher = weigher_of(now.max, factor);
  LateStore late = late_store;
  float* const scores = memory.scores;
  // These addresses stay in registers. If they were read from the steps, they would be read again after each statement
  // of `tiles`, because the compiler must assume that such a statement changes memory.
  const BFloat16Pair *const keys = next.keys, *const next_queries = next.queries, *const values = before.values;
  float *const acc = before.acc, *const sum = before.sum;

  times<4>([&]<int i>() ANNULUS_INLINE_MEMBER { tiles.template load<4 + i>(memory.weights + i * kTileWords); });
  if constexpr (kTwoLate<depth>) tiles.template store<0>(late.to - kTileWords);
  times<kColumnTiles + 1>([&]<int d>() ANNULUS_INLINE_MEMBER {
    constexpr bool is_sum = d == kColumnTiles;
    if constexpr (is_sum) {
      tiles.template load<2>(ones());
      tiles.template load<3>(ones());
    } else {
      tiles.template stream<2>(values + d * 2 * kTileWords);
      tiles.template stream<3>(values + (d * 2 + 1) * kTileWords);
    }
    times<kHalves>([&]<int h>() ANNULUS_INLINE_MEMBER {
      float* const to = is_sum ? sum + h * kTileRows : acc + d * kTileRows * kStepRows + h * kTileRows;
      constexpr long stride = is_sum ? 0 : kGroupStride;
      tiles.template load<h>(to, stride);
      tiles.template multiply<h, 2, 4 + h>();
      weigh_beside<d * 4 + h * 2, all>(memory, weigher);
      tiles.template multiply<h, 3, 6 + h>();
      tiles.template store<1 - h>(late.to, late.stride);
      weigh_beside<d * 4 + h * 2 + 1, all>(memory, weigher);
      late = {to, stride};
    });
  });

  const auto queries = [&](int k, int h)
                           ANNULUS_INLINE_MEMBER { return next_queries + k * kTileRows * kStepRows + h * kTileRows; };
  if constexpr (!kTwoLate<depth>) {  // registers can hold Q of the whole group
    times<depth * kHalves>([&]<int i>() ANNULUS_INLINE_MEMBER {
      tiles.template load<4 + i>(queries(i / kHalves, i % kHalves), kGroupStride);
    });
    times<4>([&]<int t>() ANNULUS_INLINE_MEMBER {
      // K is loaded, not streamed: with a stream a step took 2 to 4 % longer at D = 64.
      times<depth>([&]<int k>()
                       ANNULUS_INLINE_MEMBER { tiles.template load<2 + k>(keys + (t * depth + k) * kTileWords); });
      times<kHalves>([&]<int h>() ANNULUS_INLINE_MEMBER {
        tiles.template zero<h>();
        times<depth>([&]<int k>() ANNULUS_INLINE_MEMBER {
          tiles.template multiply<h, 2 + k, 4 + kHalves * k + h>();
          weigh_beside<value_products + (t * kHalves + h) * depth + k, all>(memory, weigher);
        });
        tiles.template store<1 - h>(late.to, late.stride);
        late = {scores + (t * kHalves + h) * kTileWords, 64};
      });
    });
  } else {  // each tile of K is read once, for both tiles of rows, because K comes from a slower cache
    times<4>([&]<int t>() ANNULUS_INLINE_MEMBER {
      constexpr int to = t % 2 ? 0 : 2;
      times<depth>([&]<int k>() ANNULUS_INLINE_MEMBER {
        constexpr int key = k % 2 ? 7 : 4, product = value_products + (t * depth + k) * kHalves;
        if constexpr (k == 0) {
          tiles.template zero<to>();
          tiles.template zero<to + 1>();
        }
        tiles.template stream<key>(keys + (t * depth + k) * kTileWords);
        tiles.template load<5>(queries(k, 0), kGroupStride);
        tiles.template multiply<to, key, 5>();
        weigh_beside<product, all>(memory, weigher);
        tiles.template load<6>(queries(k, 1), kGroupStride);
        tiles.template multiply<to + 1, key, 6>();
        if constexpr (t == 0 && k == 0) tiles.template store<1>(late.to, late.stride);
        if constexpr (t > 0 && k < 2) tiles.template store<2 - to + k>(scores + ((t - 1) * kHalves + k) * kTileWords);
        weigh_beside<product + 1, all>(memory, weigher);
      });
    });
    late = {scores + 7 * kTileWords, 64};
  }
  late_store = late;
  return needs_care(weigher);
}

}  // namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET
