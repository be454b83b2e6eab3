// Conversions between numbers, and between addresses of a space and generic ones.
#include <cmath>
#include <limits>
#include <type_traits>

#include "handlers.hpp"
#include "memory.hpp"
#include "numbers.hpp"

namespace emulated_gpu {
namespace {

template <class D, class S>
D converted(S x) {
  if constexpr (std::is_floating_point_v<S> && std::is_integral_v<D>) {
    if (x != x) return sizeof(D) == 8 ? D(u64(1) << 63) : D(0);
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
  add_pair<u8, S>(handlers, "u8", from);
  add_pair<s8, S>(handlers, "s8", from);
  add_pair<u16, S>(handlers, "u16", from);
  add_pair<s16, S>(handlers, "s16", from);
  add_pair<u32, S>(handlers, "u32", from);
  add_pair<s32, S>(handlers, "s32", from);
  add_pair<u64, S>(handlers, "u64", from);
  add_pair<s64, S>(handlers, "s64", from);
  add_pair<float, S>(handlers, "f32", from);
  add_pair<double, S>(handlers, "f64", from);
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
  add_from<s8>(handlers, "s8");
  add_from<u16>(handlers, "u16");
  add_from<s16>(handlers, "s16");
  add_from<u32>(handlers, "u32");
  add_from<s32>(handlers, "s32");
  add_from<u64>(handlers, "u64");
  add_from<s64>(handlers, "s64");
  add_from<float>(handlers, "f32");
  add_from<double>(handlers, "f64");
  handlers["cvt.f32.f16"] = each_lane<of_half, float, u16>;
  handlers["cvt.f16.f32"] = each_lane<to_half, u16, float>;
  handlers["cvt.bf16.f32"] = each_lane<to_bfloat, u16, float>;
  handlers["cvt.f32.bf16"] = each_lane<of_bfloat, float, u16>;
  handlers["cvt.tf32.f32"] = each_lane<to_tf32, u32, float>;
  handlers["cvt.bf16x2.f32"] = pack_two<to_bfloat>;
  handlers["cvt.f16x2.f32"] = pack_two<to_half>;
  handlers["cvta.shared"] = each_lane<[](u64 x) { return x + shared_window; }, u64, u64>;
  handlers["cvta.to.shared"] = each_lane<[](u64 x) { return x - shared_window; }, u64, u64>;
  handlers["cvta.local"] = each_lane<[](u64 x) { return x + 2 * shared_window; }, u64, u64>;
  handlers["cvta.to.local"] = each_lane<[](u64 x) { return x - 2 * shared_window; }, u64, u64>;
  handlers["isspacep.shared"] = each_lane<[](u64 x) { return u8(x >> 56 == 1); }, u8, u64>;
  handlers["isspacep.local"] = each_lane<[](u64 x) { return u8(x >> 56 == 2); }, u8, u64>;
  handlers["isspacep.global"] = each_lane<[](u64 x) { return u8(x >> 56 == 0); }, u8, u64>;
}

}  // namespace emulated_gpu
