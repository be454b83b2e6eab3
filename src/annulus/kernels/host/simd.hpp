// Vectors of the instruction set for which this file is compiled. They are the compilers' vector types, which have
// + - * & < []. The other operations are here. Only files that instruction_sets.cmake compiles once per instruction set
// may include this file. Everything is always inlined, each set has a namespace of its own, and no function of the
// standard library is used. So no function compiled for one instruction set can be used for another.
#pragma once

#include <cstdint>

#include "annulus/kernels/host/words.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define ANNULUS_INLINE static inline __attribute__((always_inline))
#define ANNULUS_INLINE_MEMBER __attribute__((always_inline))

namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64, kVectorRegisters = 32;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32, kVectorRegisters = 16;
#elif defined(__aarch64__)
constexpr int kVectorBytes = 16, kVectorRegisters = 32;
#else
constexpr int kVectorBytes = 16, kVectorRegisters = 16;
#endif

/// A vector of N numbers (or pairs) of any type.
template <class T, int N>
struct PackOf {
  typedef T type __attribute__((vector_size(N * sizeof(T))));
};
template <int N>
struct PackOf<BFloat16Pair, N> {
  typedef std::uint32_t type __attribute__((vector_size(N * sizeof(std::uint32_t))));
};
template <class T, int N>
using Pack = typename PackOf<T, N>::type;

/// How many numbers (or pairs) of type T a register holds.
template <class T>
constexpr int kLanes = kVectorBytes / int(sizeof(T));
template <class T>
using Vec = Pack<T, kLanes<T>>;
using Floats = Vec<float>;
using Doubles = Vec<double>;
using Pairs = Vec<BFloat16Pair>;

/// Integers as wide as T. A comparison of Vec<T> yields Vec<IntOf<T>>: -1 in lanes where the comparison is true,
/// otherwise 0.
template <class T>
struct IntegersFor;
template <>
struct IntegersFor<float> {
  using Int = std::int32_t;
  using Unsigned = std::uint32_t;
};
template <>
struct IntegersFor<double> {
  using Int = std::int64_t;
  using Unsigned = std::uint64_t;
};
template <class T>
using IntOf = typename IntegersFor<T>::Int;
template <class T>
using UnsignedOf = typename IntegersFor<T>::Unsigned;

/// Loads a vector from an address that is aligned to the vector's size.
template <class V, class T>
ANNULUS_INLINE V load(const T* p) {
  V x;
  __builtin_memcpy(&x, __builtin_assume_aligned(p, sizeof(V)), sizeof(V));
  return x;
}
template <class V, class T>
ANNULUS_INLINE void store(T* p, V x) {
  __builtin_memcpy(__builtin_assume_aligned(p, sizeof(V)), &x, sizeof(V));
}
/// Load and store a vector of any type at an address that need not be aligned.
template <class V>
ANNULUS_INLINE V load_unaligned(const void* p) {
  V x;
  __builtin_memcpy(&x, p, sizeof(V));
  return x;
}
template <class V>
ANNULUS_INLINE void store_unaligned(void* p, V x) {
  __builtin_memcpy(p, &x, sizeof(V));
}

/// Returns x in every lane. (The compiler drops the subtraction in x - 0. It could not drop the addition in x + 0,
/// which turns -0 into +0.)
template <class T>
ANNULUS_INLINE Vec<T> broadcast(T x) {
  return x - Vec<T>{};
}

ANNULUS_INLINE Pairs broadcast(BFloat16Pair x) { return Pairs{} + x.bits; }

/// Returns the bits of x as another type of the same size.
template <class To, class From>
ANNULUS_INLINE To bits_as(From x) {
  static_assert(sizeof(To) == sizeof(From));
  To y;
  __builtin_memcpy(&y, &x, sizeof(To));
  return y;
}

/// load_some() and store_some() read or write only the first `count` lanes, at any address. The other lanes of a loaded
/// vector are zero.
template <class V>
ANNULUS_INLINE V copy_some(const void* p, int count) {
  constexpr int lane = sizeof(V{}[0]), lanes = sizeof(V) / lane;
  V x = {};
  if (count >= lanes) return load_unaligned<V>(p);
  for (int i = 0; i < count; ++i)
    __builtin_memcpy(reinterpret_cast<char*>(&x) + i * lane, static_cast<const char*>(p) + i * lane, lane);
  return x;
}
#if defined(__AVX512F__)
ANNULUS_INLINE unsigned first_lanes(int count) { return count >= 32 ? ~0u : (1u << (count < 0 ? 0 : count)) - 1; }
template <class V>
ANNULUS_INLINE V load_some(const void* p, int count) {
  constexpr int lane = sizeof(V{}[0]), bytes = sizeof(V);
  const unsigned some = first_lanes(count);
  if constexpr (bytes == 64 && lane == 8) {
    return bits_as<V>(_mm512_maskz_loadu_epi64(__mmask8(some), p));
  } else if constexpr (bytes == 64 && lane == 4) {
    return bits_as<V>(_mm512_maskz_loadu_epi32(__mmask16(some), p));
  } else if constexpr (bytes == 64 && lane == 2) {
    return bits_as<V>(_mm512_maskz_loadu_epi16(some, p));
  } else if constexpr (bytes == 32 && lane == 4) {
    return bits_as<V>(_mm256_maskz_loadu_epi32(__mmask8(some), p));
  } else if constexpr (bytes == 32 && lane == 2) {
    return bits_as<V>(_mm256_maskz_loadu_epi16(__mmask16(some), p));
  } else if constexpr (bytes == 16 && lane == 2) {
    return bits_as<V>(_mm_maskz_loadu_epi16(__mmask8(some), p));
  } else {
    return copy_some<V>(p, count);
  }
}
ANNULUS_INLINE void store_some(float* p, Floats x, int count) {
  _mm512_mask_storeu_ps(p, __mmask16(first_lanes(count)), x);
}
ANNULUS_INLINE void store_some(double* p, Doubles x, int count) {
  _mm512_mask_storeu_pd(p, __mmask8(first_lanes(count)), x);
}
#else
template <class V>
ANNULUS_INLINE V load_some(const void* p, int count) {
  return copy_some<V>(p, count);
}
template <class T>
ANNULUS_INLINE void store_some(T* p, Vec<T> x, int count) {
  if (count >= kLanes<T>) return store_unaligned(p, x);
  for (int i = 0; i < count; ++i) p[i] = x[i];
}
#endif

// Operations that compilers' vector types do not have:
//   fma(a, b, c)      a * b + c, rounded once if the set has such an instruction, otherwise twice
//   larger(a, b)      a > b ? a : b, which is b if one of them is NaN; smaller(a, b) is a < b ? a : b
//   any_above(a, b)   true if a > b in some lane
#if defined(__AVX512F__)
ANNULUS_INLINE Floats fma(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
ANNULUS_INLINE Doubles fma(Doubles a, Doubles b, Doubles c) { return _mm512_fmadd_pd(a, b, c); }
ANNULUS_INLINE Floats larger(Floats a, Floats b) { return _mm512_max_ps(a, b); }
ANNULUS_INLINE Doubles larger(Doubles a, Doubles b) { return _mm512_max_pd(a, b); }
ANNULUS_INLINE Floats smaller(Floats a, Floats b) { return _mm512_min_ps(a, b); }
ANNULUS_INLINE Doubles smaller(Doubles a, Doubles b) { return _mm512_min_pd(a, b); }
ANNULUS_INLINE Floats square_root(Floats a) { return _mm512_sqrt_ps(a); }
ANNULUS_INLINE Doubles square_root(Doubles a) { return _mm512_sqrt_pd(a); }
ANNULUS_INLINE bool any_above(Floats a, Floats b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ) != 0; }
ANNULUS_INLINE bool any_above(Doubles a, Doubles b) { return _mm512_cmp_pd_mask(a, b, _CMP_GT_OQ) != 0; }
#elif defined(__AVX2__)
ANNULUS_INLINE Floats fma(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
ANNULUS_INLINE Doubles fma(Doubles a, Doubles b, Doubles c) { return _mm256_fmadd_pd(a, b, c); }
ANNULUS_INLINE Floats larger(Floats a, Floats b) { return _mm256_max_ps(a, b); }
ANNULUS_INLINE Doubles larger(Doubles a, Doubles b) { return _mm256_max_pd(a, b); }
ANNULUS_INLINE Floats smaller(Floats a, Floats b) { return _mm256_min_ps(a, b); }
ANNULUS_INLINE Doubles smaller(Doubles a, Doubles b) { return _mm256_min_pd(a, b); }
ANNULUS_INLINE Floats square_root(Floats a) { return _mm256_sqrt_ps(a); }
ANNULUS_INLINE Doubles square_root(Doubles a) { return _mm256_sqrt_pd(a); }
ANNULUS_INLINE bool any_above(Floats a, Floats b) { return _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GT_OQ)) != 0; }
ANNULUS_INLINE bool any_above(Doubles a, Doubles b) { return _mm256_movemask_pd(_mm256_cmp_pd(a, b, _CMP_GT_OQ)) != 0; }
#elif defined(__x86_64__)
ANNULUS_INLINE Floats fma(Floats a, Floats b, Floats c) { return a * b + c; }
ANNULUS_INLINE Doubles fma(Doubles a, Doubles b, Doubles c) { return a * b + c; }
ANNULUS_INLINE Floats larger(Floats a, Floats b) { return _mm_max_ps(a, b); }
ANNULUS_INLINE Doubles larger(Doubles a, Doubles b) { return _mm_max_pd(a, b); }
ANNULUS_INLINE Floats smaller(Floats a, Floats b) { return _mm_min_ps(a, b); }
ANNULUS_INLINE Doubles smaller(Doubles a, Doubles b) { return _mm_min_pd(a, b); }
ANNULUS_INLINE Floats square_root(Floats a) { return _mm_sqrt_ps(a); }
ANNULUS_INLINE Doubles square_root(Doubles a) { return _mm_sqrt_pd(a); }
ANNULUS_INLINE bool any_above(Floats a, Floats b) { return _mm_movemask_ps(_mm_cmpgt_ps(a, b)) != 0; }
ANNULUS_INLINE bool any_above(Doubles a, Doubles b) { return _mm_movemask_pd(_mm_cmpgt_pd(a, b)) != 0; }
#else
#if defined(__aarch64__)
ANNULUS_INLINE Floats fma(Floats a, Floats b, Floats c) { return vfmaq_f32(c, a, b); }
ANNULUS_INLINE Doubles fma(Doubles a, Doubles b, Doubles c) { return vfmaq_f64(c, a, b); }
ANNULUS_INLINE Floats square_root(Floats a) { return vsqrtq_f32(a); }
ANNULUS_INLINE Doubles square_root(Doubles a) { return vsqrtq_f64(a); }
ANNULUS_INLINE bool any_above(Floats a, Floats b) { return vmaxvq_u32(vcgtq_f32(a, b)) != 0; }
ANNULUS_INLINE bool any_above(Doubles a, Doubles b) { return vmaxvq_u32(bits_as<uint32x4_t>(vcgtq_f64(a, b))) != 0; }
#else
ANNULUS_INLINE Floats fma(Floats a, Floats b, Floats c) { return a * b + c; }
ANNULUS_INLINE Doubles fma(Doubles a, Doubles b, Doubles c) { return a * b + c; }
template <class V>
ANNULUS_INLINE V square_root(V a) {
  for (unsigned i = 0; i < sizeof(V) / sizeof(a[0]); ++i)
    a[i] = sizeof(a[0]) == 8 ? __builtin_sqrt(a[i]) : __builtin_sqrtf(float(a[i]));
  return a;
}
template <class V>
ANNULUS_INLINE bool any_above(V a, V b) {
  const auto above = a > b;
  bool any = false;
  for (unsigned i = 0; i < sizeof(V) / sizeof(above[0]); ++i) any |= above[i] != 0;
  return any;
}
#endif
template <class V>
ANNULUS_INLINE V larger(V a, V b) {
  return a > b ? a : b;
}
template <class V>
ANNULUS_INLINE V smaller(V a, V b) {
  return a < b ? a : b;
}
#endif

/// Returns a number whose bit i is 1 if lane i of a equals lane i of b.
#if defined(__AVX512F__)
ANNULUS_INLINE unsigned lanes_equal(Floats a, Floats b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
ANNULUS_INLINE unsigned lanes_equal(Doubles a, Doubles b) { return _mm512_cmp_pd_mask(a, b, _CMP_EQ_OQ); }
#elif defined(__AVX2__)
ANNULUS_INLINE unsigned lanes_equal(Floats a, Floats b) {
  return unsigned(_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_EQ_OQ)));
}
ANNULUS_INLINE unsigned lanes_equal(Doubles a, Doubles b) {
  return unsigned(_mm256_movemask_pd(_mm256_cmp_pd(a, b, _CMP_EQ_OQ)));
}
#else
template <class V>
ANNULUS_INLINE unsigned lanes_equal(V a, V b) {
  unsigned bits = 0;
  for (unsigned i = 0; i < sizeof(V) / sizeof(a[0]); ++i) bits |= unsigned(a[i] == b[i]) << i;
  return bits;
}
#endif

/// c += a * b, rounded as fma() rounds. This is assembly, because GCC otherwise puts the result into a's register, and
/// then needs copies and spills to move the accumulators back. (Measured in blocks of 6 x 2 vectors: 76 GFLOP/s without
/// assembly, over 90 with it.)
template <class V>
ANNULUS_INLINE void accumulate(V& c, V a, V b) {
#if defined(__FMA__)
  if constexpr (sizeof(c[0]) == 4) {
    asm("vfmadd231ps %2, %1, %0" : "+v"(c) : "v"(a), "v"(b));
  } else {
    asm("vfmadd231pd %2, %1, %0" : "+v"(c) : "v"(a), "v"(b));
  }
#else
  c = fma(a, b, c);
#endif
}

// Lane i of shuffle<Pattern>(x, y) is lane Pattern::at(i) of (x, y), where lanes 0 ... N - 1 are those of x, and lanes
// N ... 2 N - 1 those of y.
template <int... I>
struct LaneList {};
template <int N, int... I>
struct LanesUpTo : LanesUpTo<N - 1, N - 1, I...> {};
template <int... I>
struct LanesUpTo<0, I...> {
  using List = LaneList<I...>;
};
template <class Pattern, class V, int... I>
ANNULUS_INLINE V shuffle(V x, V y, LaneList<I...>) {
  return __builtin_shufflevector(x, y, Pattern::at(I)...);
}
template <class Pattern, class T>
ANNULUS_INLINE Vec<T> shuffle(Vec<T> x, Vec<T> y) {
  return shuffle<Pattern>(x, y, typename LanesUpTo<kLanes<T>>::List{});
}

template <int kStep>
struct Across {
  static constexpr int at(int i) { return i ^ kStep; }
};
/// Returns a vector with the largest number of x in every lane; x has no NaN.
template <class T, int kStep = kLanes<T> / 2>
ANNULUS_INLINE Vec<T> largest_lane_everywhere(Vec<T> x) {
  const Vec<T> pairs = larger(x, shuffle<Across<kStep>, T>(x, x));
  if constexpr (kStep == 1)
    return pairs;
  else
    return largest_lane_everywhere<T, kStep / 2>(pairs);
}

/// Returns the vector 0, 1, 2, ...
template <class T, int... I>
ANNULUS_INLINE Vec<IntOf<T>> count_up(LaneList<I...>) {
  return Vec<IntOf<T>>{I...};
}
template <class T>
ANNULUS_INLINE Vec<IntOf<T>> count_up() {
  return count_up<T>(typename LanesUpTo<kLanes<T>>::List{});
}

}  // namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET
