// Splits numbers of float32 (or float16) into two or three numbers of bfloat16, their parts, for the matrix unit.
//
// x = x0 + x1 + ...: x0 is x rounded to bfloat16, x1 is the rest rounded to bfloat16, and so on. Three parts hold all
// 24 bits of a float32, two parts all 11 bits of a float16 or the upper 16 bits of a float32. A product of two numbers
// is the sum of the products of part i of one and part j of the other with i + j < parts, the smallest products first:
// three products for two parts, six for three parts. All products that are left out are together below about 2^-16 (two
// parts) or 2^-23 (three parts) of the whole product.
#pragma once

#include "annulus/kernels/host/amx/pack_tiles.hpp"

namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET {

/// Returns x rounded to bfloat16, ties away from zero. The result is infinite for |x| >= 0x1.ffp127.
ANNULUS_INLINE Floats upper_part(Floats x) {
  return bits_as<Floats>((bits_as<Vec<std::uint32_t>>(x) + 0x8000u) & 0xffff0000u);
}

/// Splits numbers that are not too large for upper_part(). The last of three parts needs no rounding, because only 7
/// bits are left for it.
template <int kParts>
ANNULUS_INLINE void split(Floats x, Floats (&part)[kParts]) {
#pragma GCC unroll 3
  for (int i = 0; i < kParts; ++i) {
    part[i] = i == 2 ? x : upper_part(x);
    x = x - part[i];
  }
}

/// Splits any numbers. The first part of infinity and of NaN is the number itself, the other parts are 0. If rounding a
/// finite number to bfloat16 would give infinity, the first part is cut off, not rounded.
template <int kParts>
ANNULUS_INLINE void split_stored(Floats x, Floats (&part)[kParts]) {
  const Floats largest = broadcast(0x1.fep127f), zero{};
  const auto bits = bits_as<Vec<std::uint32_t>>(x);
  const auto magnitude = bits_as<Floats>(bits & 0x7fffffffu);
  const auto is_finite = magnitude <= broadcast(__FLT_MAX__);
  const Floats first = is_finite ? (magnitude < largest ? upper_part(x) : bits_as<Floats>(bits & 0xffff0000u)) : x;
  Floats others[kParts - 1];
  const Floats rest = x - first;
  split<kParts - 1>(is_finite ? rest : zero, others);
  part[0] = first;
#pragma GCC unroll 2
  for (int i = 1; i < kParts; ++i) part[i] = others[i - 1];
}

/// Puts two vectors of parts into words, with `low` in the low halves.
ANNULUS_INLINE Pairs side_by_side(Floats low, Floats high) { return bits_as<Pairs>(high) | bits_as<Pairs>(low) >> 16; }

/// Loads numbers d, d + 1, ... of a row, multiplies them by `factor` and splits them into parts. Numbers beyond
/// head_dim are 0.
template <class Storage, int kParts>
ANNULUS_INLINE void load_parts(const Storage* row, int d, int head_dim, float factor, Floats (&part)[kParts]) {
  split_stored<kParts>(load_some_as<float>(row + d, d < head_dim ? head_dim - d : 0) * broadcast(factor), part);
}

/// Stores two vectors of parts one after another, as 16-bit numbers.
ANNULUS_INLINE void store_parts(std::uint16_t* to, Floats first, Floats second) {
  Rounded(second, first).store_rows(to + kLanes<float>, to);
}

/// Returns 2^(x - shift) with float's precision; shift is an integer. The fraction is taken from x itself, so if the
/// shift rises by k, the result changes by the exact factor 2^-k (rule K of online_softmax.hpp). `power` becomes a
/// number that is below 0 if and only if x is below `shift`. The result is 0 for x = -inf, infinite for +inf. The
/// polynomial of degree 5 is that of exp2.hpp, with an error of 9.3e-8. All results are the same on every processor.
ANNULUS_INLINE Floats exact_exp2(Floats x, Floats shift, Floats& power) {
  Floats whole;
  const Floats r = fraction_of(x, whole);
  Floats p = fused(broadcast(0.0018671306988898011f), r, broadcast(0.0090170287221022234f));
  p = fused(fused(p, r, broadcast(0.055799914553176573f)), r, broadcast(0.24016444961110428f));
  p = fused(fused(p, r, broadcast(0.69315131187254986f)), r, broadcast(1.f));
#if defined(__AVX512F__)
  power = minus_rounded_down(x, shift);
  return _mm512_scalef_ps(p, power);  // VSCALEFPS rounds `power` down
#else
  power = x > broadcast(__FLT_MAX__) ? x : larger(broadcast(-200.f), whole - shift);
  return times_power_of_two(p, power);
#endif
}

/// A product of two parts: part number a of the first factor and part number b of the second one.
struct PartPair {
  int a, b;
};
/// The pairs of parts with a + b < kParts, those with the smallest products first.
template <int kParts>
struct PartPairs {
  static constexpr int kCount = kParts * (kParts + 1) / 2;
  PartPair pairs[kCount] = {};

  consteval PartPairs() {
    PartPair* to = pairs;
    for (int sum = kParts - 1; sum >= 0; --sum)
      for (int i = 0; i <= sum; ++i) *to++ = {i, sum - i};
  }
  constexpr const PartPair* begin() const { return pairs; }
  constexpr const PartPair* end() const { return pairs + kCount; }
};
template <int kParts>
constexpr PartPairs<kParts> kPartPairs;

/// Two tiles of sums. `step`: numbers from the first tile to the second one; `stride`: bytes from a row of a tile to
/// the next row.
struct TilePair {
  float* first;
  long step;
  long stride;

  template <int i>
  ANNULUS_INLINE_MEMBER float* tile() const {
    return first + i * step;
  }
};

/// Tiles of the parts of an operand. `part`: words from one part to the next; `stride`: bytes from a row of a tile to
/// the next row.
struct PartTiles {
  const BFloat16Pair* first;
  long part;
  long stride = 64;
};

/// Which operand both products share.
enum class Shared { a, b };

/// Adds up the products of a shared tile and two other tiles, for each of kPartPairs, in registers 0 and 1. All parts
/// of the shared tile stay in registers meanwhile, so it is the shared tile that should come from a slower cache.
template <int kParts, Shared kShared>
class PartProducts {
 public:
  explicit PartProducts(TileRegisters& tiles) : tiles_(tiles) {}

  /// Begins two sums. Products are added to the sums in memory, or to zeros if from_zero is true, and the results are
  /// stored there later.
  ANNULUS_INLINE_MEMBER void enter(const TilePair& sums, bool from_zero) {
    next_ = sums;
    is_first_ = true;
    from_zero_ = from_zero;
  }
  /// Adds products of the shared tile and the tiles `others` and `others` + `step` words. Calls beside() after every
  /// second product. Each of the previous sums is stored just before the first product of the new sum, because a store
  /// that waits for its product would fill the processor's scheduler, and no later instruction could start.
  template <class Beside>
  ANNULUS_INLINE_MEMBER void add(const PartTiles& shared, const PartTiles& others, long step, const Beside& beside) {
    add_to<0>(shared, others.first, others, beside);
    add_to<1>(shared, others.first + step, others, beside);
    if (is_first_) before_ = next_;
    is_first_ = false;
  }
  /// Stores the last sums.
  ANNULUS_INLINE_MEMBER void flush() {
    times<2>([&]<int i>()
                 ANNULUS_INLINE_MEMBER { tiles_.template store<i>(before_.template tile<i>(), before_.stride); });
    before_ = nowhere();
  }

 private:
  template <int i, class Beside>
  ANNULUS_INLINE_MEMBER void add_to(const PartTiles& shared, const BFloat16Pair* other, const PartTiles& others,
                                    const Beside& beside) {
    constexpr int pairs = PartPairs<kParts>::kCount, first_other = kParts == 2 && i == 1 ? 6 : 2 + kParts;
    times<pairs>([&]<int p>() ANNULUS_INLINE_MEMBER {
      constexpr PartPair of = kPartPairs<kParts>.pairs[p];
      constexpr int mine = kShared == Shared::a ? of.a : of.b, its = kShared == Shared::a ? of.b : of.a;
      // The first kParts pairs have each part of each operand once.
      if constexpr (i == 0 && p < kParts)
        tiles_.template stream<2 + mine>(shared.first + mine * shared.part, shared.stride);
      if constexpr (p < kParts) tiles_.template load<first_other + its>(other + its * others.part, others.stride);
      if constexpr (p == 0) exchange<i>();
      if constexpr (kShared == Shared::a)
        tiles_.template multiply<i, 2 + mine, first_other + its>();
      else
        tiles_.template multiply<i, first_other + its, 2 + mine>();
      if constexpr ((i * pairs + p) % 2 == 1) beside();
    });
  }
  /// Stores sum i of the previous sums and loads sum i of the next ones into the register.
  template <int i>
  ANNULUS_INLINE_MEMBER void exchange() {
    if (!is_first_) return;
    tiles_.template store<i>(before_.template tile<i>(), before_.stride);
    if (from_zero_)
      tiles_.template zero<i>();
    else
      tiles_.template load<i>(next_.template tile<i>(), next_.stride);
  }
  ANNULUS_INLINE_MEMBER TilePair nowhere() { return {nowhere_, 0, 64}; }

  TileRegisters& tiles_;
  alignas(64) float nowhere_[kTileWords];
  TilePair before_ = nowhere(), next_ = {};
  bool is_first_ = false, from_zero_ = false;
};
/// How often PartProducts::add() calls beside().
template <int kParts>
constexpr int kPartProducts = PartPairs<kParts>::kCount;

/// The argument `beside` of products that run alone.
struct Alone {
  ANNULUS_INLINE_MEMBER void operator()() const {}
};

/// The parts of one number: in the low halves (half = 0) or high halves (1) of words that are `part` words apart.
struct NumberInParts {
  const BFloat16Pair* word;
  int half;
  long part;

  ANNULUS_INLINE_MEMBER float operator[](int i) const {
    const std::uint32_t bits = word[i * part].bits;
    return bits_as<float>(half == 0 ? bits << 16 : bits & 0xffff0000u);
  }
  template <int kParts>
  ANNULUS_INLINE_MEMBER float whole() const {
    float x = 0;
    for (int i = kParts - 1; i >= 0; --i) x += (*this)[i];
    return x;
  }
};

/// Adds to `sum` those of 32 products a(k) b(k) for which seen(k) is true, with the bits of the matrix unit. If some of
/// these numbers are not finite, multiplies whole numbers, not parts, because infinity times a part that is 0 would be
/// NaN.
template <int kParts, class A, class B, class Seen>
void add_product_of_seen(float& sum, const A& a, const B& b, const Seen& seen) {
  bool is_finite = true;
  for (int k = 0; k < kProductDepth; ++k)
    if (seen(k)) is_finite &= a(k)[0] - a(k)[0] == 0 && b(k)[0] - b(k)[0] == 0;
  const auto chains = [&](const auto& x, const auto& y) {
    float both[2] = {};
    for (int k = 0; k < kProductDepth; ++k)
      if (seen(k)) both[k % 2] = __builtin_fmaf(x(k), y(k), both[k % 2]);
    sum += both[0] + both[1];
  };
  if (!is_finite)
    return chains([&](int k) { return a(k).template whole<kParts>(); },
                  [&](int k) { return b(k).template whole<kParts>(); });
  for (const PartPair& of : kPartPairs<kParts>)
    chains([&](int k) { return a(k)[of.a]; }, [&](int k) { return b(k)[of.b]; });
}

}  // namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET
