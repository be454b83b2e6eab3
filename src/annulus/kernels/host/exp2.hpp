// Computes 2^(x - shift) for the weights of the softmax: x is a score, shift an integer.
//
// x is split into an integer n and a fraction r. A polynomial gives 2^r, and n - shift goes into the exponent. Weights
// too small for a normal number become exactly 0, and so does the weight of a masked score (x = -inf). NaN stays NaN.
#pragma once

#include "annulus/kernels/host/simd.hpp"

namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET {

#if defined(__AVX512F__)

// AVX-512 has instructions for both steps: VREDUCE makes r = x - floor(x), in [0, 1), and VSCALEF multiplies 2^r by
// 2^floor(x - shift). x - shift is rounded down, because rounding to nearest could reach the next integer. So
// floor(x - shift) is floor(x) - shift. Weights below the normal numbers become 0, as on other machines. In float, 2^r
// is the minimax polynomial of degree 5 with c0 = 1 on [0, 1], whose relative error is at most 9.3e-8.
constexpr float kExp2Float[] = {1.f,
                                0.69315131187254986f,
                                0.24016444961110428f,
                                0.055799914553176573f,
                                0.0090170287221022234f,
                                0.0018671306988898011f};

// In double r = k / 16 + s. 2^(k/16) comes from a table that one instruction reads. 2^s on [0, 1/16) is a polynomial of
// degree 6 with c0 = 1 and an error of 7.9e-18. The table's number is rounded, and the result is rounded once more, so
// the error of 2^r is at most 1.1 units in the last place. A polynomial of degree 11 without a table, as on other
// machines, would take 4 more multiply-adds, 2 % of the time of the forward pass at D = 64.
alignas(kVectorBytes) constexpr double kSixteenths[] = {1.0,
                                                        1.0442737824274138,
                                                        1.0905077326652577,
                                                        1.1387886347566916,
                                                        1.189207115002721,
                                                        1.241857812073484,
                                                        1.2968395546510096,
                                                        1.3542555469368927,
                                                        1.4142135623730951,
                                                        1.4768261459394993,
                                                        1.5422108254079407,
                                                        1.6104903319492543,
                                                        1.681792830507429,
                                                        1.7562521603732995,
                                                        1.8340080864093424,
                                                        1.9152065613971474};
constexpr double kExp2Double[] = {1,
                                  0.6931471805599377,
                                  0.24022650696146325,
                                  0.05550410841954199,
                                  0.009618140803086095,
                                  0.0013330742245224847,
                                  0.00015736282854558428};
constexpr int kTowardsMinusInfinity = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;

/// Returns x minus the largest multiple of 2^-kBits <= x, rounded down: 0 <= fraction < 2^-kBits, also for x = -1e-30.
template <int kBits>
ANNULUS_INLINE Floats fraction(Floats x) {
  return _mm512_reduce_ps(x, kTowardsMinusInfinity | kBits << 4);
}
template <int kBits>
ANNULUS_INLINE Doubles fraction(Doubles x) {
  return _mm512_reduce_pd(x, kTowardsMinusInfinity | kBits << 4);
}
/// Returns 2^(k/16) for r in [k/16, (k+1)/16). Adding 3/2 * 2^48 leaves k in the four lowest bits of the sum.
ANNULUS_INLINE Doubles sixteenth_below(Doubles r) {
  const Doubles k = _mm512_add_round_pd(r, broadcast(0x1.8p48), kTowardsMinusInfinity);
  return _mm512_permutex2var_pd(load<Doubles>(kSixteenths), bits_as<__m512i>(k), load<Doubles>(kSixteenths + 8));
}
ANNULUS_INLINE Floats minus_rounded_down(Floats x, Floats shift) {
  return _mm512_sub_round_ps(x, shift, kTowardsMinusInfinity);
}
ANNULUS_INLINE Doubles minus_rounded_down(Doubles x, Doubles shift) {
  return _mm512_sub_round_pd(x, shift, kTowardsMinusInfinity);
}
ANNULUS_INLINE Floats times_power(Floats p, Floats x) {
  return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(x, _mm512_set1_ps(-126), _CMP_NLT_UQ), p, x);
}
ANNULUS_INLINE Doubles times_power(Doubles p, Doubles x) {
  return _mm512_maskz_scalef_pd(_mm512_cmp_pd_mask(x, _mm512_set1_pd(-1022), _CMP_NLT_UQ), p, x);
}

#else

// r = x - rint(x) is in [-1/2, 1/2]. 2^r is a minimax polynomial with c0 = 1. In float it has degree 5 and a relative
// error of at most 1.6e-7; in double it has degree 11 and an error of at most 3.5e-17.
//
// 2^r may be less than 1. So `smallest`, the smallest n - shift of a weight above 0, is one above the exponent of the
// smallest normal number. Adding `rounder` = 3/2 * 2^(mantissa bits) rounds a number to an integer, with ties to even,
// and leaves the integer in the low bits of the sum. For large |x| this sum is too coarse, so x is rounded by
// round_to_integer(), with the machine's own instruction. On a machine without one, 2^(mantissa bits) is added to |x|
// and subtracted again.
template <class T>
struct Format;
template <>
struct Format<float> {
  static constexpr float exp2[] = {
      1.f, 6.931469671e-1f, 2.402211972e-1f, 5.550713273e-2f, 9.675541331e-3f, 1.327647217e-3f};
  static constexpr float rounder = 0x1.8p23f, smallest = -125;
  static constexpr int mantissa = 23;
};
template <>
struct Format<double> {
  static constexpr double exp2[] = {1,
                                    0.69314718055994529,
                                    0.24022650695910155,
                                    0.055504108664819925,
                                    0.0096181291075883388,
                                    0.0013333558146789836,
                                    0.00015403530462509965,
                                    1.5252733490062371e-05,
                                    1.3215433091851151e-06,
                                    1.0178197993382468e-07,
                                    7.0741052512368325e-09,
                                    4.4352866745874165e-10};
  static constexpr double rounder = 0x1.8p52, smallest = -1021;
  static constexpr int mantissa = 52;
};

#if defined(__AVX2__)
ANNULUS_INLINE Floats round_to_integer(Floats x) {
  return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
ANNULUS_INLINE Doubles round_to_integer(Doubles x) {
  return _mm256_round_pd(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
#elif defined(__aarch64__)
ANNULUS_INLINE Floats round_to_integer(Floats x) { return vrndnq_f32(x); }
ANNULUS_INLINE Doubles round_to_integer(Doubles x) { return vrndnq_f64(x); }
#else
template <class V>
ANNULUS_INLINE V round_to_integer(V x) {
  using T = decltype(x[0] + 0);
  const V whole = broadcast(Format<T>::rounder / T(1.5));  // from this number on there are no fractions
  const V rounded = x < V{} ? (x - whole) + whole : (x + whole) - whole;
  return ((x < whole) & (x > -whole)) ? rounded : x;
}
#endif

#endif

/// Computes p[i] = c[kLowest] + r[i] * (c[kLowest + 1] + r[i] * (...)), for N vectors at once, because the
/// multiply-adds of one vector alone would wait for each other.
template <int kLowest, class T, int kCount, int N>
ANNULUS_INLINE void polynomial(const T (&c)[kCount], const Vec<T> (&r)[N], Vec<T> (&p)[N]) {
  for (int i = 0; i < N; ++i) p[i] = broadcast(c[kCount - 1]);
#pragma GCC unroll 16
  for (int k = kCount - 2; k >= kLowest; --k)
    for (int i = 0; i < N; ++i) p[i] = fma(p[i], r[i], broadcast(c[k]));
}

#if defined(__AVX512F__)
/// Sets p[i] = 2^(x[i] - floor(x[i])).
template <int N>
ANNULUS_INLINE void exp2_of_fractions(const Floats (&x)[N], Floats (&p)[N]) {
  Floats r[N];
  for (int i = 0; i < N; ++i) r[i] = fraction<0>(x[i]);
  polynomial<0>(kExp2Float, r, p);
}
template <int N>
ANNULUS_INLINE void exp2_of_fractions(const Doubles (&x)[N], Doubles (&p)[N]) {
  Doubles s[N], step[N];
  for (int i = 0; i < N; ++i) step[i] = sixteenth_below(fraction<0>(x[i]));
  for (int i = 0; i < N; ++i) s[i] = fraction<4>(x[i]);
  polynomial<1>(kExp2Double, s, p);
  for (int i = 0; i < N; ++i) p[i] = fma(step[i] * s[i], p[i], step[i]);
}
#endif

/// Sets x[i] = 2^(x[i] - shift), where every lane of `shift` is an integer. The fraction is taken from x itself. So if
/// the shift rises by k, the result changes by the exact factor 2^-k, or becomes 0 (rule K of online_softmax.hpp).
template <class T, int N>
ANNULUS_INLINE void exp2_of(Vec<T> (&x)[N], Vec<T> shift) {
  Vec<T> p[N];
#if defined(__AVX512F__)
  exp2_of_fractions(x, p);
  for (int i = 0; i < N; ++i) x[i] = minus_rounded_down(x[i], shift);
  for (int i = 0; i < N; ++i) x[i] = times_power(p[i], x[i]);
#else
  using Bits = Vec<UnsignedOf<T>>;
  Vec<T> n[N], r[N];
  for (int i = 0; i < N; ++i) n[i] = round_to_integer(x[i]);
  for (int i = 0; i < N; ++i) r[i] = x[i] - n[i];
  polynomial<0>(Format<T>::exp2, r, p);
  for (int i = 0; i < N; ++i) {
    const Vec<T> power = n[i] - shift, t = power + broadcast(Format<T>::rounder);
    const Bits weight = bits_as<Bits>(p[i]) + (bits_as<Bits>(t) << Format<T>::mantissa);
    x[i] = bits_as<Vec<T>>(weight & ~bits_as<Bits>(power < broadcast(Format<T>::smallest)));
  }
#endif
}

/// Sets x[i] = 2^x[i].
template <class T, int N>
ANNULUS_INLINE void exp2_of(Vec<T> (&x)[N]) {
  exp2_of<T>(x, broadcast(T(0)));
}

}  // namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET
