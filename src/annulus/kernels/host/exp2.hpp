// 2^(x - shift) for the weights of the softmax: x a score, shift an integer.
//
// x is split into an integer n and a fraction r, 2^r is a polynomial, 2^(n - shift) goes into the exponent. Weights too
// small for a normal number become exactly 0, and so does the weight of a masked score (x = -inf). NaN stays NaN.
#pragma once

#include "annulus/kernels/host/simd.hpp"

namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET {

#if defined(__AVX512F__)

// The machine splits and rebuilds: r = x - floor(x) in [0, 1), scalef multiplies by 2^floor. The difference x - shift
// is rounded down: floor(x - shift) then is floor(x) - shift, where rounding to nearest could reach the next integer.
// Weights below the normal numbers become 0 as they do elsewhere. Relative minimax
// polynomials on [0, 1]: degree 5 with c0 = 1 errs by 8.2e-8, degree 11 by 3.1e-18.
constexpr float kExp2Float[] = {1.f,
                                0.69315131187254986f,
                                0.24016444961110428f,
                                0.055799914553176573f,
                                0.0090170287221022234f,
                                0.0018671306988898011f};
constexpr double kExp2Double[] = {1,
                                  0.69314718055994629,
                                  0.2402265069590547,
                                  0.055504108665711288,
                                  0.0096181290987915839,
                                  0.0013333558661618545,
                                  0.00015403511445384257,
                                  1.525319026728252e-05,
                                  1.3208193297563444e-06,
                                  1.0254458701912628e-07,
                                  6.554452175436055e-09,
                                  6.2724425682141886e-10};
constexpr int kTowardsMinusInfinity = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
ANNULUS_INLINE Floats fraction(Floats x) { return _mm512_reduce_ps(x, kTowardsMinusInfinity); }
ANNULUS_INLINE Doubles fraction(Doubles x) { return _mm512_reduce_pd(x, kTowardsMinusInfinity); }
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

// r = x - rint(x) in [-1/2, 1/2]. Relative minimax polynomials: degree 5 with c0 = 1 errs by 1.5e-7, degree 11 by
// 3.1e-18.
constexpr float kExp2Float[] = {
    1.f, 6.931469671e-1f, 2.402211972e-1f, 5.550713273e-2f, 9.675541331e-3f, 1.327647217e-3f};
constexpr double kExp2Double[] = {1,
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

// 2^r may be a little less than 1, so the smallest power lies one above that of the smallest normal number.
// Adding 3/2 * 2^(mantissa bits) rounds to an integer, to even on ties, and leaves it in the low bits of the sum.
// Beyond half of 2^(mantissa bits) it rounds too coarsely: there round_to_integer() leaves numbers to the machine, or
// alone.
template <class T>
struct Format;
template <>
struct Format<float> {
  static constexpr float rounder = 0x1.8p23f, smallest = -125;
  static constexpr int mantissa = 23;
};
template <>
struct Format<double> {
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
  const V rounder = broadcast(Format<T>::rounder), limit = broadcast(Format<T>::rounder / 4);
  return (x < limit) & (x > -limit) ? (x + rounder) - rounder : x;
}
#endif

#endif

template <class T>
struct Exp2Polynomial;
template <>
struct Exp2Polynomial<float> {
  static constexpr int degree = 5;
  static constexpr const float* coefficient = kExp2Float;
};
template <>
struct Exp2Polynomial<double> {
  static constexpr int degree = 11;
  static constexpr const double* coefficient = kExp2Double;
};

/// p[i] = 2^r[i] for fractions r, N vectors at once: one alone would wait for its own multiply-adds.
template <class T, int N>
ANNULUS_INLINE void exp2_of_fractions(const Vec<T> (&r)[N], Vec<T> (&p)[N]) {
  using Polynomial = Exp2Polynomial<T>;
  for (int i = 0; i < N; ++i) p[i] = broadcast(Polynomial::coefficient[Polynomial::degree]);
#pragma GCC unroll 16
  for (int k = Polynomial::degree - 1; k >= 0; --k)
    for (int i = 0; i < N; ++i) p[i] = fma(p[i], r[i], broadcast(Polynomial::coefficient[k]));
}

/// x[i] = 2^(x[i] - shift), where every lane of `shift` is an integer. The fraction is taken from x itself, so a change
/// of the shift by k changes the result by the exact factor 2^-k (or makes it 0): rule K of online_softmax.hpp.
template <class T, int N>
ANNULUS_INLINE void exp2_of(Vec<T> (&x)[N], Vec<T> shift) {
  Vec<T> r[N], p[N];
#if defined(__AVX512F__)
  for (int i = 0; i < N; ++i) r[i] = fraction(x[i]);
  for (int i = 0; i < N; ++i) x[i] = minus_rounded_down(x[i], shift);
  exp2_of_fractions<T>(r, p);
  for (int i = 0; i < N; ++i) x[i] = times_power(p[i], x[i]);
#else
  using Bits = Vec<UnsignedOf<T>>;
  Vec<T> n[N];
  for (int i = 0; i < N; ++i) n[i] = round_to_integer(x[i]);
  for (int i = 0; i < N; ++i) r[i] = x[i] - n[i];
  exp2_of_fractions<T>(r, p);
  for (int i = 0; i < N; ++i) {
    const Vec<T> power = n[i] - shift, t = power + broadcast(Format<T>::rounder);
    const Bits weight = bits_as<Bits>(p[i]) + (bits_as<Bits>(t) << Format<T>::mantissa);
    x[i] = bits_as<Vec<T>>(weight & ~bits_as<Bits>(power < broadcast(Format<T>::smallest)));
  }
#endif
}

/// x[i] = 2^x[i].
template <class T, int N>
ANNULUS_INLINE void exp2_of(Vec<T> (&x)[N]) {
  exp2_of<T>(x, broadcast(T(0)));
}

}  // namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET
