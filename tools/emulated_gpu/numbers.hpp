// Numbers as registers hold them: short names, 16-bit floats, and what does something to each lane's numbers.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <tuple>
#include <utility>

#include "warp.hpp"

namespace emulated_gpu {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s8 = std::int8_t;
using s16 = std::int16_t;
using s32 = std::int32_t;
using s64 = std::int64_t;

/// The type with twice the bits.
template <class T>
struct TwiceOf;
template <>
struct TwiceOf<u16> {
  using type = u32;
};
template <>
struct TwiceOf<s16> {
  using type = s32;
};
template <>
struct TwiceOf<u32> {
  using type = u64;
};
template <>
struct TwiceOf<s32> {
  using type = s64;
};
template <>
struct TwiceOf<u64> {
  using type = unsigned __int128;
};
template <>
struct TwiceOf<s64> {
  using type = __int128;
};
template <class T>
using Twice = typename TwiceOf<T>::type;

inline float of_bfloat(u16 x) { return std::bit_cast<float>(u32(x) << 16); }

inline float of_half(u16 h) {
  const u32 sign = u32(h & 0x8000u) << 16, exponent = h >> 10 & 31, mantissa = h & 1023;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | mantissa << 13);
  if (exponent == 0) return (sign != 0 ? -1.0f : 1.0f) * std::ldexp(float(mantissa), -24);
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}

/// Rounded to nearest, ties to even.
inline u16 to_half(float x) {
  if (std::isnan(x)) return 0x7fff;
  const u32 sign = std::bit_cast<u32>(x) >> 16 & 0x8000u;
  const float magnitude = std::fabs(x);
  if (magnitude >= 65520.0f) return u16(sign | 0x7c00u);
  if (magnitude < std::ldexp(1.0f, -14)) return u16(sign | u32(std::nearbyint(std::ldexp(magnitude, 24))));
  const u32 all = std::bit_cast<u32>(magnitude) - (112u << 23);
  return u16(sign | ((all + 0xfffu + (all >> 13 & 1)) >> 13));
}
inline u16 to_bfloat(float x) {
  if (std::isnan(x)) return 0x7fff;
  const u32 bits = std::bit_cast<u32>(x);
  return u16((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}
inline u32 to_tf32(float x) {
  if (std::isnan(x)) return 0x7fffffffu;
  const u32 bits = std::bit_cast<u32>(x);
  return (bits + 0xfffu + (bits >> 13 & 1)) & ~0x1fffu;
}

/// A handler: of[0] = f(of[1], of[2], ...) in each lane, a Result of numbers of these types.
template <auto f, class Result, class... Sources>
void each_lane(Warp& w, const Instruction& i, u32 lanes) {
  [&]<std::size_t... n>(std::index_sequence<n...>) {
    Result* const result = w.row<Result>(i.of[0]);
    const std::tuple<const Sources*...> sources{w.row<Sources>(i.of[n + 1])...};
    for_lanes(lanes, [&](int lane) { result[lane] = Result(f(std::get<n>(sources)[lane]...)); });
  }
  (std::index_sequence_for<Sources...>());
}

}  // namespace emulated_gpu
