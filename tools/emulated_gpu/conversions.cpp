// Conversions between numbers, and between addresses of a space and generic ones.
#include <cmath>
#include <limits>
#include <type_traits>

#include "handlers.hpp"
#include "memory.hpp"

namespace emulated_gpu {
namespace {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;

float float_of(u32 bits) { return std::bit_cast<float>(bits); }

float from_half(u16 h) {
  const u32 sign = u32(h & 0x8000u) << 16, exponent = h >> 10 & 31, mantissa = h & 1023;
  if (exponent == 31) return float_of(sign | 0x7f800000u | mantissa << 13);
  if (exponent == 0) return (sign != 0 ? -1.0f : 1.0f) * std::ldexp(float(mantissa), -24);
  return float_of(sign | (exponent + 112) << 23 | mantissa << 13);
}

/// Rounded to nearest, ties to even.
u16 to_half(float x) {
  const u32 bits = std::bit_cast<u32>(x), sign = bits >> 16 & 0x8000u;
  if (std::isnan(x)) return 0x7fff;
  const float magnitude = std::fabs(x);
  if (magnitude >= 65520.0f) return u16(sign | 0x7c00u);
  if (magnitude < std::ldexp(1.0f, -14)) return u16(sign | u32(std::nearbyint(std::ldexp(magnitude, 24))));
  const u32 all = std::bit_cast<u32>(magnitude) - (112u << 23);
  return u16(sign | ((all + 0xfffu + (all >> 13 & 1)) >> 13));
}

u16 to_bfloat(float x) {
  if (std::isnan(x)) return 0x7fff;
  const u32 bits = std::bit_cast<u32>(x);
  return u16((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

template <class D, class S>
D converted(S x) {
  if constexpr (std::is_floating_point_v<S> && std::is_integral_v<D>) {
    if (x != x) return sizeof(D) == 8 ? D(std::uint64_t(1) << 63) : D(0);
    if (double(x) <= double(std::numeric_limits<D>::min())) return std::numeric_limits<D>::min();
    if (double(x) >= double(std::numeric_limits<D>::max())) return std::numeric_limits<D>::max();
  }
  return D(x);
}

template <class D, class S, auto round>
void convert(Warp& w, const Instruction& i, u32 lanes) {
  D* d = w.row<D>(i.of[0]);
  const S* s = w.row<S>(i.of[1]);
  for_lanes(lanes, [&](int l) {
    if constexpr (std::is_floating_point_v<S>) {
      d[l] = converted<D, S>(round(s[l]));
    } else {
      d[l] = converted<D, S>(s[l]);
    }
  });
}

template <class T>
T same(T x) {
  return x;
}

template <class D, class S>
void add_pair(Handlers& handlers, const std::string& to, const std::string& from) {
  const std::string types = "." + to + "." + from;
  if constexpr (std::is_floating_point_v<S>) {
    handlers["cvt" + types] = convert<D, S, same<S>>;
    handlers["cvt.rni" + types] = convert<D, S, [](S x) { return std::nearbyint(x); }>;
    handlers["cvt.rzi" + types] = convert<D, S, [](S x) { return std::trunc(x); }>;
    handlers["cvt.rmi" + types] = convert<D, S, [](S x) { return std::floor(x); }>;
    handlers["cvt.rpi" + types] = convert<D, S, [](S x) { return std::ceil(x); }>;
  } else {
    handlers["cvt" + types] = convert<D, S, 0>;
  }
}

template <class S>
void add_from(Handlers& handlers, const std::string& from) {
  add_pair<std::uint8_t, S>(handlers, "u8", from);
  add_pair<std::int8_t, S>(handlers, "s8", from);
  add_pair<u16, S>(handlers, "u16", from);
  add_pair<std::int16_t, S>(handlers, "s16", from);
  add_pair<u32, S>(handlers, "u32", from);
  add_pair<std::int32_t, S>(handlers, "s32", from);
  add_pair<std::uint64_t, S>(handlers, "u64", from);
  add_pair<std::int64_t, S>(handlers, "s64", from);
  add_pair<float, S>(handlers, "f32", from);
  add_pair<double, S>(handlers, "f64", from);
}

template <class D, class S, auto f>
void by(Warp& w, const Instruction& i, u32 lanes) {
  D* d = w.row<D>(i.of[0]);
  const S* s = w.row<S>(i.of[1]);
  for_lanes(lanes, [&](int l) { d[l] = f(s[l]); });
}
template <auto f>
void pack_two(Warp& w, const Instruction& i, u32 lanes) {
  u32* d = w.row<u32>(i.of[0]);
  const float *high = w.row<float>(i.of[1]), *low = w.row<float>(i.of[2]);
  for_lanes(lanes, [&](int l) { d[l] = u32(f(high[l])) << 16 | f(low[l]); });
}

}  // namespace

void add_conversions(Handlers& handlers) {
  add_from<u8>(handlers, "u8");
  add_from<std::int8_t>(handlers, "s8");
  add_from<u16>(handlers, "u16");
  add_from<std::int16_t>(handlers, "s16");
  add_from<u32>(handlers, "u32");
  add_from<std::int32_t>(handlers, "s32");
  add_from<std::uint64_t>(handlers, "u64");
  add_from<std::int64_t>(handlers, "s64");
  add_from<float>(handlers, "f32");
  add_from<double>(handlers, "f64");
  handlers["cvt.f32.f16"] = by<float, u16, from_half>;
  handlers["cvt.f16.f32"] = by<u16, float, to_half>;
  handlers["cvt.bf16.f32"] = by<u16, float, to_bfloat>;
  handlers["cvt.f32.bf16"] = by<float, u16, [](u16 x) { return float_of(u32(x) << 16); }>;
  handlers["cvt.bf16x2.f32"] = pack_two<to_bfloat>;
  handlers["cvt.f16x2.f32"] = pack_two<to_half>;
  handlers["cvta.shared"] = by<std::uint64_t, std::uint64_t, [](std::uint64_t x) { return x + shared_window; }>;
  handlers["cvta.to.shared"] = by<std::uint64_t, std::uint64_t, [](std::uint64_t x) { return x - shared_window; }>;
  handlers["cvta.local"] = by<std::uint64_t, std::uint64_t, [](std::uint64_t x) { return x + 2 * shared_window; }>;
  handlers["cvta.to.local"] = by<std::uint64_t, std::uint64_t, [](std::uint64_t x) { return x - 2 * shared_window; }>;
  handlers["isspacep.shared"] = by<u8, std::uint64_t, [](std::uint64_t x) { return u8(x >> 56 == 1); }>;
  handlers["isspacep.local"] = by<u8, std::uint64_t, [](std::uint64_t x) { return u8(x >> 56 == 2); }>;
  handlers["isspacep.global"] = by<u8, std::uint64_t, [](std::uint64_t x) { return u8(x >> 56 == 0); }>;
}

}  // namespace emulated_gpu
