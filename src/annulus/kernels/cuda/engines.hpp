// How matrix units compute products of tiles, for each type of numbers. An engine multiplies pieces:
//   Queries   a piece of Q, `rows` rows x 32 bytes                     the left side of S = Q K^T
//   Keys      a piece of K, 16 rows x 32 bytes                         the right side of S = Q K^T
//   Weights   a piece of P, `rows` rows x 16 keys, made from sums      the left side of O = P V
//   Values    a piece of V, 16 keys x 16 columns                       the right side of O = P V
//   RowSums   sums of the rows of P, made by a product with ones, or number by number
//   Sums      `rows` rows x 16 columns of S or O. A lane's number [half][2 part + c] is in row group + 8 part and in
//             column 8 half + 2 quad + c
// Sums of S become Weights without data from other lanes, because a product may take its keys in any order, if V's
// rows come in the same order. The order of the keys in products:
//   16-bit   0 1 2 ... 15           the order of the columns of the sums
//   TF32     0 2 4 6 1 3 5 7        lane `quad` has keys 2 quad and 2 quad + 1, as keys quad and quad + 4 of a product
//   64-bit   0 2 4 6 | 1 3 5 7      two products of 4 keys each
#pragma once

#include <Kokkos_Core.hpp>

#include "annulus/core/storage.hpp"
#include "annulus/kernels/cuda/tile.hpp"

namespace annulus::kernels::cuda {

/// The row and chunk whose address this lane gives to ldmatrix, if a piece of 16 rows x 32 bytes (two chunks) is the
/// left side of a product. The four matrices of the piece are rows 0-7 and rows 8-15 of the first chunk, then the same
/// rows of the second chunk. Pieces of V, 16 keys x 16 columns, have this order, too.
struct LeftPlace {
  unsigned row, chunk;
  KOKKOS_FORCEINLINE_FUNCTION explicit LeftPlace(int lane) : row(unsigned(lane) % 16), chunk(unsigned(lane) / 16) {}
};
/// The same for a right side: both chunks of rows 0-7, then both chunks of rows 8-15.
struct RightPlace {
  unsigned row, chunk;
  KOKKOS_FORCEINLINE_FUNCTION explicit RightPlace(int lane)
      : row(unsigned(lane) % 8 + unsigned(lane) / 16 * 8), chunk(unsigned(lane) / 8 % 2) {}
};

/// A lane's sums of rows of weights: the softmax's l. If is_product, a product of the weights with ones makes the sums.
/// So l is the sum of the weights as rounded for the product with V, and a row that sees a single key gets exactly that
/// key's value. Each lane then has the whole sum of a row, twice, in two columns. If is_product is false, weights are
/// not rounded, and each lane has a part of a row's sum.
template <class Sum, int parts, bool is_product>
struct RowSums {
  static constexpr int copies = is_product ? 2 : 1;
  Sum of[copies * parts];

  KOKKOS_FORCEINLINE_FUNCTION void set(const Lane& lane, int part, Sum l) {
    ANNULUS_UNROLL
    for (int i = 0; i < copies; ++i) of[copies * part + i] = is_product || lane.quad == 0 ? l : Sum(0);
  }
  KOKKOS_FORCEINLINE_FUNCTION void shrink(int part, Sum factor) {
    ANNULUS_UNROLL
    for (int i = 0; i < copies; ++i) of[copies * part + i] *= factor;
  }
  template <class Machine>
  KOKKOS_FORCEINLINE_FUNCTION Sum total(const Machine& machine, int part) const {
    Sum l = of[copies * part];
    for (int mask = 1; !is_product && mask < 4; mask *= 2) l += machine.from_lane_xor(l, mask);
    return l;
  }
};

/// Products of bfloat16 or float16 numbers, sums in float32.
template <class Number, int columns>
struct Engine16 {
  using Stored = Number;
  using Sum = float;
  using Tile = SharedRows<columns * 2, Reading::rows>;
  static constexpr int rows = 16, parts = 2;
  using Sums = float[2][2 * parts];
  using RowSums = cuda::RowSums<Sum, parts, true>;
  using Queries = Words4;
  using Keys = Words4;
  using Weights = Words4;
  using Values = Words4;

  template <class Machine>
  KOKKOS_FORCEINLINE_FUNCTION static Queries load_queries(Machine& machine, const Lane& lane, Shared tile, int row,
                                                          int depth) {
    const LeftPlace place(lane.lane);
    return machine.load_matrices(tile + Tile::template at_near<2>(row, place.row, depth, place.chunk));
  }
  template <class Machine>
  KOKKOS_FORCEINLINE_FUNCTION static Keys load_keys(Machine& machine, const Lane& lane, Shared tile, int row,
                                                    int depth) {
    const RightPlace place(lane.lane);
    return machine.load_matrices(tile + Tile::template at_near<2>(row, place.row, depth, place.chunk));
  }
  template <class Machine>
  KOKKOS_FORCEINLINE_FUNCTION static Values load_values(Machine& machine, const Lane& lane, Shared tile, int key,
                                                        int column) {
    const LeftPlace place(lane.lane);
    return machine.load_transposed(tile + Tile::template at_near<2>(key, place.row, column / 16, place.chunk));
  }
  template <class Machine>
  KOKKOS_FORCEINLINE_FUNCTION static Weights weights_of(Machine& machine, const Sums& p) {
    return {{machine.template pack<Stored>(p[0][0], p[0][1]), machine.template pack<Stored>(p[0][2], p[0][3]),
             machine.template pack<Stored>(p[1][0], p[1][1]), machine.template pack<Stored>(p[1][2], p[1][3])}};
  }
  template <class Machine>
  KOKKOS_FORCEINLINE_FUNCTION static void multiply(Machine& machine, Sums& sums, const Words4& left,
                                                   const Words4& right) {
    machine.template multiply_16<Stored>(sums[0], left, right.of[0], right.of[1]);
    machine.template multiply_16<Stored>(sums[1], left, right.of[2], right.of[3]);
  }
  /// O += P V.
  template <class Machine>
  KOKKOS_FORCEINLINE_FUNCTION static void add_values(Machine& machine, Sums& sums, const Weights& weights,
                                                     const Values& values) {
    multiply(machine, sums, weights, values);
  }
  template <bool ordered, class Machine>
  KOKKOS_FORCEINLINE_FUNCTION static void add_rows(Machine& machine, const Lane&, RowSums& l, const Weights& weights) {
    constexpr std::uint32_t ones = std::is_same_v<Number, core::BFloat16> ? 0x3f803f80u : 0x3c003c00u;
    machine.template multiply_16<Stored>(l.of, weights, ones, ones);
  }
};

/// Floats, each as the sum of two TF32 numbers (8 bits of exponent, 10 of mantissa) with a relative error of about
/// 2^-22. If `three`, products use both numbers, otherwise only `high`.
template <int count, bool three>
struct Split {
  std::uint32_t high[count];
  std::uint32_t low[count];

  /// `high` is rounded to nearest. The rest, x - high, is exact; the matrix unit ignores its low bits.
  template <class Machine>
  KOKKOS_FORCEINLINE_FUNCTION void set(const Machine& machine, int i, float x) {
    high[i] = machine.round_tf32(x);
    if (three) low[i] = core::detail::bits_of(x - core::detail::float_of(high[i]));
  }
};

/// Products of float32 numbers rounded to TF32. But if `three`, each product is the sum of three products of parts of
/// the numbers: low times high, high times low, and high times high.
///
/// Matrix units round sums towards zero (Fasi et al. 2021). In a long sum, this error soon exceeds what the low parts
/// contribute. So with three products, matrix units add up the products of one piece from zero, and an ordinary
/// addition, which rounds to nearest, adds the piece's sum to the sums so far (Ootomo and Yokota 2022).
template <int columns, bool three>
struct EngineOfTf32 {
  using Stored = float;
  using Sum = float;
  using Tile = SharedRows<columns * 4, Reading::rows>;
  static constexpr int rows = 16, parts = 2;
  using Sums = float[2][2 * parts];
  using RowSums = cuda::RowSums<Sum, parts, true>;
  using Queries = Split<4, three>;
  using Keys = Split<4, three>;
  struct Weights {
    Split<4, three> of[2];  ///< keys 0-7, 8-15
  };
  struct Values {
    Split<2, three> of[2][2];  ///< keys 0-7, 8-15; columns 0-7, 8-15
  };

  template <class Machine>
  KOKKOS_FORCEINLINE_FUNCTION static Queries load_queries(Machine& machine, const Lane& lane, Shared tile, int row,
                                                          int depth) {
    const LeftPlace place(lane.lane);
    return split(machine, machine.load_matrices(tile + Tile::template at_near<2>(row, place.row, depth, place.chunk)));
  }
  template <class Machine>
  KOKKOS_FORCEINLINE_FUNCTION static Keys load_keys(Machine& machine, const Lane& lane, Shared tile, int row,
                                                    int depth) {
    const RightPlace place(lane.lane);
    return split(machine, machine.load_matrices(tile + Tile::template at_near<2>(row, place.row, depth, place.chunk)));
  }
  template <class Machine>
  KOKKOS_FORCEINLINE_FUNCTION static Values load_values(Machine& machine, const Lane& lane, Shared tile, int key,
                                                        int column) {
    const unsigned row = 2 * unsigned(lane.quad), chunk = unsigned(lane.group) / 4, number = unsigned(lane.group) % 4;
    Values values;
    ANNULUS_UNROLL
    for (int i = 0; i < 8; ++i) {
      const int keys = i / 4, half = i / 2 % 2, odd = i % 2;
      const Shared at = Tile::template at_near<2>(key + 8 * keys + odd, row, column / 8 + half, chunk);
      values.of[keys][half].set(machine, odd, machine.template load<float>(tile + at + number * 4));
    }
    return values;
  }
  template <class Machine>
  KOKKOS_FORCEINLINE_FUNCTION static Weights weights_of(Machine& machine, const Sums& p) {
    Weights weights;
    ANNULUS_UNROLL
    for (int keys = 0; keys < 2; ++keys) {
      ANNULUS_UNROLL
      for (int i = 0; i < 4; ++i) weights.of[keys].set(machine, i, p[keys][i % 2 * 2 + i / 2]);
    }
    return weights;
  }
  template <class Machine>
  KOKKOS_FORCEINLINE_FUNCTION static void multiply(Machine& machine, Sums& sums, const Queries& left,
                                                   const Keys& right) {
    ANNULUS_UNROLL
    for (int half = 0; half < 2; ++half)
      add_piece(sums[half], [&](float(&piece)[4]) { take(machine, piece, left, right, 2 * half); });
  }
  template <class Machine>
  KOKKOS_FORCEINLINE_FUNCTION static void add_values(Machine& machine, Sums& sums, const Weights& weights,
                                                     const Values& values) {
    ANNULUS_UNROLL
    for (int half = 0; half < 2; ++half) {
      add_piece(sums[half], [&](float(&piece)[4]) {
        ANNULUS_UNROLL
        for (int keys = 0; keys < 2; ++keys) take(machine, piece, weights.of[keys], values.of[keys][half], 0);
      });
    }
  }
  template <bool ordered, class Machine>
  KOKKOS_FORCEINLINE_FUNCTION static void add_rows(Machine& machine, const Lane&, RowSums& l, const Weights& weights) {
    constexpr std::uint32_t one = 0x3f800000u;
    add_piece(l.of, [&](float(&piece)[4]) {
      ANNULUS_UNROLL
      for (const Split<4, three>& left : weights.of) {
        if (three) take(machine, piece, left.low, one, one);
        take(machine, piece, left.high, one, one);
      }
    });
  }

 private:
  /// With three products, add() adds to a piece of zeros, which is then added to `sums`. With one product, add() adds
  /// to `sums`, because there the error of rounding sums towards zero does not matter.
  template <class Add>
  KOKKOS_FORCEINLINE_FUNCTION static void add_piece(float (&sums)[4], const Add& add) {
    if constexpr (three) {
      float piece[4] = {0, 0, 0, 0};
      add(piece);
      ANNULUS_UNROLL
      for (int i = 0; i < 4; ++i) sums[i] += piece[i];
    } else {
      add(sums);
    }
  }
  template <class Machine>
  KOKKOS_FORCEINLINE_FUNCTION static void take(Machine& machine, float (&sums)[4], const std::uint32_t (&left)[4],
                                               std::uint32_t right_0, std::uint32_t right_1) {
    machine.multiply_tf32(sums, {{left[0], left[1], left[2], left[3]}}, right_0, right_1);
  }
  /// Adds to `sums` the products of `left` with numbers `first` and first + 1 of the right side: three products or one.
  template <class Machine, int count>
  KOKKOS_FORCEINLINE_FUNCTION static void take(Machine& machine, float (&sums)[4], const Split<4, three>& left,
                                               const Split<count, three>& right, int first) {
    if (three) take(machine, sums, left.low, right.high[first], right.high[first + 1]);
    if (three) take(machine, sums, left.high, right.low[first], right.low[first + 1]);
    take(machine, sums, left.high, right.high[first], right.high[first + 1]);
  }
  template <class Machine>
  KOKKOS_FORCEINLINE_FUNCTION static Split<4, three> split(const Machine& machine, const Words4& words) {
    Split<4, three> parts_of;
    ANNULUS_UNROLL
    for (int i = 0; i < 4; ++i) parts_of.set(machine, i, core::detail::float_of(words.of[i]));
    return parts_of;
  }
};
template <class, int columns>
using EngineTf32 = EngineOfTf32<columns, false>;
template <class, int columns>
using Engine3xTf32 = EngineOfTf32<columns, true>;

/// Products of float64 numbers, 8 x 8 x 4 at a time.
template <class, int columns>
struct Engine64 {
  using Stored = double;
  using Sum = double;
  using Tile = SharedRows<columns * 8, Reading::numbers>;
  static constexpr int rows = 8, parts = 1;
  using Sums = double[2][2 * parts];
  using RowSums = cuda::RowSums<Sum, parts, false>;
  using Queries = double;
  struct Keys {
    double of[2];
  };
  struct Weights {
    double of[2][2];  ///< keys 0-7, 8-15; even, odd keys
  };
  struct Values {
    double of[2][2][2];  ///< keys as in Weights; columns 0-7, 8-15
  };

  template <class Machine>
  KOKKOS_FORCEINLINE_FUNCTION static Queries load_queries(Machine& machine, const Lane& lane, Shared tile, int row,
                                                          int depth) {
    const unsigned chunk = unsigned(lane.quad) / 2, number = unsigned(lane.quad) % 2;
    return machine.template load<double>(tile + Tile::template at_near<2>(row, unsigned(lane.group), depth, chunk) +
                                         number * 8);
  }
  template <class Machine>
  KOKKOS_FORCEINLINE_FUNCTION static Keys load_keys(Machine& machine, const Lane& lane, Shared tile, int row,
                                                    int depth) {
    return {{load_queries(machine, lane, tile, row, depth), load_queries(machine, lane, tile, row + 8, depth)}};
  }
  template <class Machine>
  KOKKOS_FORCEINLINE_FUNCTION static Values load_values(Machine& machine, const Lane& lane, Shared tile, int key,
                                                        int column) {
    const unsigned row = 2 * unsigned(lane.quad), chunk = unsigned(lane.group) / 2, number = unsigned(lane.group) % 2;
    Values values;
    ANNULUS_UNROLL
    for (int i = 0; i < 8; ++i) {
      const int keys = i / 4, odd = i / 2 % 2, half = i % 2;
      const Shared at = Tile::template at_near<4>(key + 8 * keys + odd, row, column / 8 + half, chunk);
      values.of[keys][odd][half] = machine.template load<double>(tile + at + number * 8);
    }
    return values;
  }
  template <class Machine>
  KOKKOS_FORCEINLINE_FUNCTION static Weights weights_of(Machine&, const Sums& p) {
    return {{{p[0][0], p[0][1]}, {p[1][0], p[1][1]}}};
  }
  template <class Machine>
  KOKKOS_FORCEINLINE_FUNCTION static void multiply(Machine& machine, Sums& sums, const Queries& left,
                                                   const Keys& right) {
    machine.multiply_64(sums[0], left, right.of[0]);
    machine.multiply_64(sums[1], left, right.of[1]);
  }
  template <class Machine>
  KOKKOS_FORCEINLINE_FUNCTION static void add_values(Machine& machine, Sums& sums, const Weights& weights,
                                                     const Values& values) {
    ANNULUS_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int keys = i / 2, odd = i % 2;
      machine.multiply_64(sums[0], weights.of[keys][odd], values.of[keys][odd][0]);
      machine.multiply_64(sums[1], weights.of[keys][odd], values.of[keys][odd][1]);
    }
  }
  /// If `ordered`, the first of a row's four lanes adds the weights of all sixteen keys, and the other lanes keep l =
  /// 0. Otherwise each lane adds its own four weights.
  template <bool ordered, class Machine>
  KOKKOS_FORCEINLINE_FUNCTION static void add_rows(Machine& machine, const Lane& lane, RowSums& l,
                                                   const Weights& weights) {
    double sum = ordered ? 0 : l.of[0];
    ANNULUS_UNROLL
    for (int i = 0; i < 4; ++i) sum += weights.of[i / 2][i % 2];
    if constexpr (ordered) {
      for (int mask = 1; mask < 4; mask *= 2) sum += machine.from_lane_xor(sum, mask);
      l.of[0] += lane.quad == 0 ? sum : 0;
    } else {
      l.of[0] = sum;
    }
  }
};

}  // namespace annulus::kernels::cuda
