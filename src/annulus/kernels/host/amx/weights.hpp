// Turns scores into softmax weights in bfloat16, the type that the matrix unit multiplies. 2^x is computed with
// fixed-point numbers and a table.
//
// x = score * factor - m + 127 + 2^16, but at least 2^16. If the weight is below 2, x is below 2^17, with a last place
// of 2^-7. So one multiply-add rounds the score to a multiple of 1/128. The low 16 bits of x are one bit 0, followed by
//   8 bits  floor(x) - 2^16, the exponent of the weight in bfloat16
//   7 bits  f: the mantissa is 128 (2^(f / 128) - 1), which is f minus a number of a table of 128 bytes (MantissaTable)
// Rounding does not depend on m, because m is an even integer. So rescaling is exact (rule K of online_softmax.hpp).
// Weights below 2^-126 count as 0. If a weight is 2 or more, or if x is NaN (from the score, or from a shift beyond
// kLargestShift), x has bits that no valid x has. All x of a step are combined by OR, and the result is checked once.
#pragma once

#include "annulus/kernels/host/amx/tile_registers.hpp"
#include "annulus/kernels/host/online_softmax.hpp"

namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET {

/// kStepKeys: keys of a step of the forward pass. kStepRows: rows of the step's group. The scores of a step are four by
/// two tiles.
constexpr int kStepKeys = 64;
constexpr int kStepRows = 32;
/// Bytes from one word of 32 rows to the next in queries [word][32 rows]; the same in accumulators [column][32 rows].
constexpr long kGroupStride = kStepRows * 4;
constexpr int kHalves = kStepRows / kTileRows;  // tiles of rows in a group

/// Memory that every step uses again, so that it stays in the first-level cache: 12 KiB.
struct StepMemory {
  /// [4 tiles of keys][2 halves][16 keys][16 rows]
  alignas(64) float scores[kStepKeys * kStepRows];
  /// [2 products][2 halves][16 pairs of keys][16 rows]
  alignas(64) BFloat16Pair weights[kStepKeys * kStepRows / 2];
};

/// less[f] = f - 128 (2^(f / 128) - 1), rounded.
struct MantissaTable {
  alignas(64) std::uint8_t less[128];
  consteval MantissaTable() : less() {
    double power = 1;
    for (int f = 0; f < 128; ++f, power *= 1.0054299011128028 /* 2^(1/128) */)
      less[f] = std::uint8_t(f - int(128 * (power - 1) + 0.5));
  }
};
constexpr MantissaTable kMantissas;

constexpr float kFixedPoint = 65536;
/// The shift of a row is 2^16 + 127 - m. This is the shift for m = 0.
constexpr float kOrigin = kFixedPoint + 127;
/// For a weight below 2, x differs from 2^16 only in its low 14 bits, so x & kCleanMask is kCleanBits.
constexpr std::uint32_t kCleanBits = 0x47800000;
/// All bits of x but the low 14.
constexpr std::uint32_t kCleanMask = 0xffffc000;
/// If |m| is above this, 2^16 + 127 - m may be inexact. The shift is then NaN, so that weigh_with_care() makes the
/// step's weights.
constexpr float kLargestShift = 0x1p22f;

using Bits = Vec<std::uint32_t>;

/// Returns p * 2^power, where p is 0.5 to 4 and `power` an integer >= -254 (with AVX-512 any number, rounded down). A
/// result below 2^-126 becomes 0, because denormal numbers are flushed.
ANNULUS_INLINE Floats times_power_of_two(Floats p, Floats power) {
#if defined(__AVX512F__)
  return _mm512_scalef_ps(p, power);
#else
  for (int i = 0; i < kLanes<float>; ++i) {
    const bool is_infinite = power[i] == kInfinity<float>;  // VSCALEFPS also gives infinity then, for any p
    const int whole = power[i] < 200 ? int(power[i]) : 200, half = whole / 2, rest = whole - half;
    const float first = bits_as<float>(std::uint32_t(half + 127) << 23),
                second = bits_as<float>(std::uint32_t(rest + 127) << 23);
    p[i] = is_infinite ? kInfinity<float> : p[i] * first * second;
  }
  return p;
#endif
}

/// Returns x minus the largest integer <= x, rounded down: 0 <= fraction < 1, and 0 for infinite x. Every processor
/// gets the bits of AVX-512's VREDUCEPS. `whole` becomes that integer. With AVX-512 `whole` becomes x instead, because
/// VSCALEFPS rounds x down.
ANNULUS_INLINE Floats fraction_of(Floats x, Floats& whole) {
#if defined(__AVX512F__)
  whole = x;
  return fraction<0>(x);
#else
  const Floats most = broadcast(__FLT_MAX__);
  const Floats finite = smaller(most, larger(-most, x)) + Floats{};  // denormal numbers become 0
#if defined(__AVX2__)
  whole = _mm256_floor_ps(finite);
#else
  for (int i = 0; i < kLanes<float>; ++i) whole[i] = __builtin_floorf(finite[i]);
#endif
  // For -1 < x < 0 the difference may be inexact. If it was rounded up, `less` is below 0.
  const Floats difference = finite - whole, less = finite - (difference + whole);
  return less < Floats{} ? bits_as<Floats>(bits_as<Vec<std::uint32_t>>(difference) - 1u) : difference;
#endif
}

/// The shifts of a group's rows, and the OR of all x so far, for weigh_pair().
struct Weigher {
  Floats factor, shift[kHalves][kTileVectors];
  Bits seen[kHalves];
};

/// Returns the shifts of rows. If m of a row is still -inf, no score of the row is above -inf in this step, because
/// such a score would have raised m before. So this row may have any shift.
ANNULUS_INLINE Floats shift_of(Floats m) {
  const Floats largest = broadcast(kLargestShift), none = broadcast(-kInfinity<float>);
  const auto is_beyond = (m > largest) | (m < -largest);
  const Floats exact = is_beyond ? broadcast(__builtin_nanf("")) : kOrigin - m;
  return m > none ? exact : m == none ? broadcast(kOrigin) : exact;
}

ANNULUS_INLINE Weigher weigher_of(const float* m, float factor) {
  Weigher w;
  w.factor = broadcast(factor);
#pragma GCC unroll 2
  for (int h = 0; h < kHalves; ++h) {
    w.seen[h] = Bits{} + kCleanBits;
#pragma GCC unroll 4
    for (int v = 0; v < kTileVectors; ++v)
      w.shift[h][v] = shift_of(load<Floats>(m + h * kTileRows + v * kLanes<float>));
  }
  return w;
}

/// True if m of a row must rise or is too large for an exact shift, or if a score is NaN or +inf.
ANNULUS_INLINE bool needs_care(const Weigher& w) {
  const Bits other = ((w.seen[0] | w.seen[1]) ^ kCleanBits) & kCleanMask;
#if defined(__AVX512F__)
  return _mm512_test_epi32_mask(bits_as<__m512i>(other), bits_as<__m512i>(other)) != 0;
#else
  bool any = false;
  for (int i = 0; i < kLanes<float>; ++i) any |= other[i] != 0;
  return any;
#endif
}

/// Returns words of the weights of two keys, made from the keys' x. The weight of `low` is in the low half.
ANNULUS_INLINE Pairs weights_of(Floats low, Floats high) {
#if defined(__AVX512VBMI__)
  const __m512i x = bits_as<__m512i>(low), y = bits_as<__m512i>(high), table = load<__m512i>(kMantissas.less),
                rest = load<__m512i>(kMantissas.less + 64),
                upwards = _mm512_broadcast_i32x4(_mm_setr_epi32(0x0100ffff, 0x0504ffff, 0x0908ffff, 0x0d0cffff));
  const __m512i moved = _mm512_shuffle_epi8(y, upwards);
  const __m512i word = _mm512_ternarylogic_epi32(x, _mm512_set1_epi32(0xffff), moved, 0xea);  // x & 0xffff | moved
  constexpr __mmask64 low_bytes = 0x5555555555555555;
  return bits_as<Pairs>(_mm512_sub_epi16(word, _mm512_maskz_permutex2var_epi8(low_bytes, table, word, rest)));
#else
  const Bits word = (bits_as<Bits>(low) & 0xffffu) | bits_as<Bits>(high) << 16;
  Bits less;
  for (int i = 0; i < kLanes<float>; ++i)
    less[i] = kMantissas.less[word[i] & 127] | std::uint32_t(kMantissas.less[word[i] >> 16 & 127]) << 16;
  return word - less;
#endif
}

/// Computes the weights of the step's keys 2 u and 2 u + 1 (u = 0 ... 31), for all rows.
template <int u>
ANNULUS_INLINE_BESIDE void weigh_pair(StepMemory& memory, Weigher& w) {
  constexpr int n = kLanes<float>;
  const Floats none = broadcast(kFixedPoint);
#pragma GCC unroll 2
  for (int h = 0; h < kHalves; ++h)
#pragma GCC unroll 4
    for (int v = 0; v < kTileVectors; ++v) {
      const float* const scores = memory.scores + (u / 8 * kHalves + h) * kTileWords + u % 8 * 32 + v * n;
      BFloat16Pair* const to = memory.weights + (u / 16 * kHalves + h) * kTileWords + u % 16 * 16 + v * n;
      const Floats low = larger(none, fused(load<Floats>(scores), w.factor, w.shift[h][v]));
      const Floats high = larger(none, fused(load<Floats>(scores + kTileRows), w.factor, w.shift[h][v]));
#if defined(__AVX512F__)
      w.seen[h] = bits_as<Bits>(
          _mm512_ternarylogic_epi32(bits_as<__m512i>(w.seen[h]), bits_as<__m512i>(low), bits_as<__m512i>(high), 0xfe));
#else
      w.seen[h] |= bits_as<Bits>(low) | bits_as<Bits>(high);
#endif
      store(to, weights_of(low, high));
    }
}

/// Returns x of a score for which weigh_pair() may fail. Scores that overflow to +inf all get the same weight; NaN
/// stays NaN.
ANNULUS_INLINE float careful_fixed_point(float score, float factor, float m) {
  const float scaled = score * factor;
  if (scaled != scaled) return scaled;
  if (m > kLargestShift || m < -kLargestShift) {
    const float x = (scaled < kLargest<float> ? scaled : kLargest<float>)-m + kOrigin;
    return m == -kInfinity<float> || x < kFixedPoint ? kFixedPoint : x;
  }
  const float x = __builtin_fmaf(score, factor, kOrigin - m);
  return x < kFixedPoint ? kFixedPoint : x;
}

/// Computes a step's weights if weigh_pair() may fail. The caller must have raised m. Where weigh_pair() does not fail,
/// both functions give the same bits.
__attribute__((noinline)) inline void weigh_with_care(StepMemory& memory, const float* m, float factor) {
  for (int u = 0; u < kStepKeys / 2; ++u)
    for (int row = 0; row < kStepRows; ++row) {
      const int h = row / kTileRows, i = row % kTileRows;
      const float* const scores = memory.scores + (u / 8 * kHalves + h) * kTileWords + u % 8 * 32 + i;
      std::uint32_t word = 0;
      for (int half = 0; half < 2; ++half) {
        const float x = careful_fixed_point(scores[half * kTileRows], factor, m[row]);
        const std::uint32_t low = bits_as<std::uint32_t>(x) & 0xffffu;
        word |= (x == x ? low - kMantissas.less[low & 127] : 0x7fc0u) << half * 16;
      }
      memory.weights[(u / 16 * kHalves + h) * kTileWords + u % 16 * 16 + i] = BFloat16Pair{word};
    }
}

}  // namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET
