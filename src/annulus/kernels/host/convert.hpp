// Converts vectors of float or double from and to storage types. Numbers are rounded to nearest, ties to even. A double
// becomes a 16-bit number by way of float, so it is rounded twice.
#pragma once

#include "annulus/kernels/host/simd.hpp"
#include "annulus/kernels/host/tile_functions.hpp"

namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET {

// widen() and narrow() convert N 16-bit numbers at once. For float16 they use the machine's own instruction if it has
// one for N numbers. Otherwise they use arithmetic that core/storage.hpp explains.
template <int N>
using Words = Pack<std::uint32_t, N>;
template <int N>
using Shorts = Pack<std::uint16_t, N>;

template <int N>
ANNULUS_INLINE Words<N> select(Pack<std::int32_t, N> which, Words<N> yes, Words<N> no) {
  return (Words<N>(which) & yes) | (~Words<N>(which) & no);
}

template <int N>
ANNULUS_INLINE Pack<float, N> widen(Shorts<N> x, const BFloat16Bits*) {
  return bits_as<Pack<float, N>>(__builtin_convertvector(x, Words<N>) << 16);
}
template <int N>
ANNULUS_INLINE Pack<float, N> widen(Shorts<N> x, const HalfBits*) {
#if defined(__AVX512F__)
  if constexpr (N == 16) return _mm512_cvtph_ps(bits_as<__m256i>(x));
#elif defined(__F16C__)
  if constexpr (N == 8) return _mm256_cvtph_ps(bits_as<__m128i>(x));
#elif defined(__aarch64__)
  if constexpr (N == 4) return vcvt_f32_f16(bits_as<float16x4_t>(x));
#endif
  const Words<N> u = __builtin_convertvector(x, Words<N>);
  const Words<N> sign = (u & 0x8000u) << 16, rest = u & 0x7fffu;
  const auto scaled = bits_as<Pack<float, N>>(rest << 13) * 0x1p112f;
  const auto special = rest >= 0x7c00u;  // infinity and NaN
  return bits_as<Pack<float, N>>(sign |
                                 select<N>(special, 0x7f800000u | (rest & 0x3ffu) << 13, bits_as<Words<N>>(scaled)));
}

/// Returns x rounded to bfloat16 in the upper half of each lane; the lower half may hold anything.
template <int N>
ANNULUS_INLINE Words<N> rounded_bits(Pack<float, N> x) {
  const auto u = bits_as<Words<N>>(x);
  const Words<N> rounded = u + 0x7fffu + (u >> 16 & 1u);
  return select<N>((u & 0x7fffffffu) > 0x7f800000u, u | 0x400000u, rounded);
}
template <int N>
ANNULUS_INLINE Shorts<N> narrow(Pack<float, N> x, const BFloat16Bits*) {
  return __builtin_convertvector(rounded_bits<N>(x) >> 16, Shorts<N>);
}
template <int N>
ANNULUS_INLINE Shorts<N> narrow(Pack<float, N> x, const HalfBits*) {
#if defined(__AVX512F__)
  if constexpr (N == 16) return bits_as<Shorts<N>>(_mm512_maskz_cvtps_ph(0xffff, x, _MM_FROUND_TO_NEAREST_INT));
#elif defined(__F16C__)
  if constexpr (N == 8) return bits_as<Shorts<N>>(_mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
#elif defined(__aarch64__)
  if constexpr (N == 4) return bits_as<Shorts<N>>(vcvt_f16_f32(x));
#endif
  const auto u = bits_as<Words<N>>(x);
  const Words<N> sign = u >> 16 & 0x8000u, mag = u & 0x7fffffffu;
  const Words<N> half_one = bits_as<Words<N>>(Pack<float, N>{} + 0.5f);
  const Words<N> subnormal = bits_as<Words<N>>(bits_as<Pack<float, N>>(mag) + 0.5f) - half_one;
  const Words<N> normal = (mag + 0xfffu + (mag >> 13 & 1u) - 0x38000000u) >> 13;
  Words<N> h = select<N>(mag < 0x38800000u, subnormal, normal);
  h = select<N>(mag >= 0x477ff000u, Words<N>{} + 0x7c00u, h);  // 65520 and more
  h = select<N>(mag > 0x7f800000u, Words<N>{} + 0x7e00u, h);   // NaN
  return __builtin_convertvector(sign | h, Shorts<N>);
}

/// Returns the numbers p[0 .. lanes) as a Vec<T>.
template <class T, class Storage>
ANNULUS_INLINE Vec<T> load_as(const Storage* p) {
  constexpr int n = kLanes<T>;
  if constexpr (sizeof(Storage) == sizeof(T)) {
    return load_unaligned<Vec<T>>(p);
  } else if constexpr (sizeof(Storage) == 2) {
    return __builtin_convertvector(widen<n>(load_unaligned<Shorts<n>>(p), p), Vec<T>);
  } else {
    return __builtin_convertvector((load_unaligned<Pack<Storage, n>>(p)), Vec<T>);
  }
}
/// Sets p[0 .. lanes) = x, rounded.
template <class T, class Storage>
ANNULUS_INLINE void store_as(Storage* p, Vec<T> x) {
  constexpr int n = kLanes<T>;
  if constexpr (sizeof(Storage) == sizeof(T)) {
    store_unaligned(p, x);
  } else if constexpr (sizeof(Storage) == 2) {
    using Floats_n = Pack<float, n>;
    store_unaligned(p, narrow<n>(__builtin_convertvector(x, Floats_n), p));
  } else {
    using Target = Pack<Storage, n>;
    store_unaligned(p, __builtin_convertvector(x, Target));
  }
}

/// Returns the first `count` numbers of p, and zero in the other lanes. Reads nothing beyond these numbers.
template <class T, class Storage>
ANNULUS_INLINE Vec<T> load_some_as(const Storage* p, int count) {
  constexpr int n = kLanes<T>;
  if (count >= n) return load_as<T>(p);
  if constexpr (sizeof(Storage) == 2) {
    return __builtin_convertvector(widen<n>(load_some<Shorts<n>>(p, count), p), Vec<T>);
  } else {
    return __builtin_convertvector((load_some<Pack<Storage, n>>(p, count)), Vec<T>);
  }
}

}  // namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET
