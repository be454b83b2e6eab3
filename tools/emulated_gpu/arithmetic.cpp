// Numbers of each lane: integers, bits, floats, comparisons.
#include <cmath>
#include <limits>
#include <type_traits>

#include "handlers.hpp"
#include "numbers.hpp"

namespace emulated_gpu {
namespace {

template <class T>
T smaller(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return std::fmin(a, b);
  return a < b ? a : b;
}
template <class T>
T larger(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return std::fmax(a, b);
  return a > b ? a : b;
}

/// Wrapping arithmetic, signed or not.
template <class T>
using Bits = std::make_unsigned_t<T>;
template <class T>
T quotient(T a, T b) {
  if (b == 0) return T(-1);
  if constexpr (std::is_signed_v<T>) {
    if (b == T(-1)) return T(Bits<T>(0) - Bits<T>(a));
  }
  return T(a / b);
}
template <class T>
T rest(T a, T b) {
  if (b == 0) return a;
  if constexpr (std::is_signed_v<T>) {
    if (b == T(-1)) return 0;
  }
  return T(a % b);
}
template <class T>
T shifted_left(T a, u32 n) {
  return n >= 8 * sizeof(T) ? T(0) : T(Bits<T>(a) << n);
}
template <class T>
T shifted_right(T a, u32 n) {
  if (n >= 8 * sizeof(T)) return a < 0 ? T(-1) : T(0);
  return T(a >> n);
}

template <class T>
void add_integers(Handlers& handlers, const std::string& type) {
  using W = Twice<T>;
  handlers["add." + type] = each_lane<[](T a, T b) { return T(Bits<T>(a) + Bits<T>(b)); }, T, T, T>;
  handlers["sub." + type] = each_lane<[](T a, T b) { return T(Bits<T>(a) - Bits<T>(b)); }, T, T, T>;
  handlers["mul." + type] = each_lane<[](T a, T b) { return T(u64(a) * u64(b)); }, T, T, T>;
  handlers["mul.hi." + type] = each_lane<[](T a, T b) { return T(W(a) * W(b) >> 8 * sizeof(T)); }, T, T, T>;
  handlers["mad." + type] = each_lane<[](T a, T b, T c) { return T(u64(a) * u64(b) + u64(c)); }, T, T, T, T>;
  handlers["mad.hi." + type] =
      each_lane<[](T a, T b, T c) { return T(u64(T(W(a) * W(b) >> 8 * sizeof(T))) + u64(c)); }, T, T, T, T>;
  if constexpr (sizeof(T) < 8) {
    handlers["mul.wide." + type] = each_lane<[](T a, T b) { return W(a) * W(b); }, W, T, T>;
    handlers["mad.wide." + type] =
        each_lane<[](T a, T b, W c) { return W(Bits<W>(W(a) * W(b)) + Bits<W>(c)); }, W, T, T, W>;
  }
  handlers["div." + type] = each_lane<quotient<T>, T, T, T>;
  handlers["rem." + type] = each_lane<rest<T>, T, T, T>;
  handlers["min." + type] = each_lane<smaller<T>, T, T, T>;
  handlers["max." + type] = each_lane<larger<T>, T, T, T>;
  handlers["neg." + type] = each_lane<[](T a) { return T(Bits<T>(0) - Bits<T>(a)); }, T, T>;
  handlers["abs." + type] = each_lane<[](T a) { return a < 0 ? T(Bits<T>(0) - Bits<T>(a)) : a; }, T, T>;
  handlers["shr." + type] = each_lane<shifted_right<T>, T, T, u32>;
}

template <class T>
void add_bits(Handlers& handlers, const std::string& type) {
  handlers["and." + type] = each_lane<[](T a, T b) { return T(a & b); }, T, T, T>;
  handlers["or." + type] = each_lane<[](T a, T b) { return T(a | b); }, T, T, T>;
  handlers["xor." + type] = each_lane<[](T a, T b) { return T(a ^ b); }, T, T, T>;
  handlers["not." + type] = each_lane<[](T a) { return T(~a); }, T, T>;
  handlers["shl." + type] = each_lane<shifted_left<T>, T, T, u32>;
  handlers["shr." + type] = each_lane<shifted_right<T>, T, T, u32>;
  handlers["mov." + type] = each_lane<[](T a) { return a; }, T, T>;
  handlers["popc." + type] = each_lane<[](T a) { return u32(std::popcount(a)); }, u32, T>;
  handlers["clz." + type] = each_lane<[](T a) { return u32(std::countl_zero(a)); }, u32, T>;
  handlers["brev." + type] = each_lane<[](T a) {
    T r = 0;
    for (unsigned n = 0; n < 8 * sizeof(T); ++n) r = T(r << 1 | (a >> n & 1));
    return r;
  },
                                       T, T>;
  handlers["selp." + type] = [](Warp& w, const Instruction& i, u32 lanes) {
    T* d = w.row<T>(i.of[0]);
    const T *a = w.row<T>(i.of[1]), *b = w.row<T>(i.of[2]);
    const u8* p = w.row<u8>(i.of[3]);
    const bool negated = i.is_negated;
    for_lanes(lanes, [&](int l) { d[l] = (p[l] != 0) != negated ? a[l] : b[l]; });
  };
}

template <class T>
void add_floats(Handlers& handlers, const std::string& type) {
  handlers["add." + type] = each_lane<[](T a, T b) { return a + b; }, T, T, T>;
  handlers["sub." + type] = each_lane<[](T a, T b) { return a - b; }, T, T, T>;
  handlers["mul." + type] = each_lane<[](T a, T b) { return a * b; }, T, T, T>;
  handlers["div." + type] = each_lane<[](T a, T b) { return a / b; }, T, T, T>;
  handlers["fma." + type] = each_lane<[](T a, T b, T c) { return std::fma(a, b, c); }, T, T, T, T>;
  handlers["fused.add." + type] = handlers["fma." + type];
  handlers["fused.sub." + type] = each_lane<[](T a, T b, T c) { return std::fma(a, b, -c); }, T, T, T, T>;
  handlers["fused.from." + type] = each_lane<[](T a, T b, T c) { return std::fma(-a, b, c); }, T, T, T, T>;
  handlers["min." + type] = each_lane<smaller<T>, T, T, T>;
  handlers["max." + type] = each_lane<larger<T>, T, T, T>;
  handlers["min.NaN." + type] =
      each_lane<[](T a, T b) { return a != a || b != b ? std::numeric_limits<T>::quiet_NaN() : smaller(a, b); }, T, T,
                T>;
  handlers["max.NaN." + type] =
      each_lane<[](T a, T b) { return a != a || b != b ? std::numeric_limits<T>::quiet_NaN() : larger(a, b); }, T, T,
                T>;
  handlers["neg." + type] = each_lane<[](T a) { return -a; }, T, T>;
  handlers["abs." + type] = each_lane<[](T a) { return std::fabs(a); }, T, T>;
  handlers["copysign." + type] = each_lane<[](T a, T b) { return std::copysign(b, a); }, T, T, T>;
  handlers["rcp." + type] = each_lane<[](T a) { return T(1) / a; }, T, T>;
  handlers["sqrt." + type] = each_lane<[](T a) { return std::sqrt(a); }, T, T>;
  handlers["rsqrt." + type] = each_lane<[](T a) { return T(1.0 / std::sqrt(double(a))); }, T, T>;
  handlers["testp.infinite." + type] = each_lane<[](T a) { return std::isinf(a); }, u8, T>;
  handlers["testp.finite." + type] = each_lane<[](T a) { return std::isfinite(a); }, u8, T>;
  handlers["testp.number." + type] = each_lane<[](T a) { return !std::isnan(a); }, u8, T>;
  handlers["testp.notanumber." + type] = each_lane<[](T a) { return std::isnan(a); }, u8, T>;
  handlers["testp.subnormal." + type] = each_lane<[](T a) { return std::fpclassify(a) == FP_SUBNORMAL; }, u8, T>;
}

// The modifier .ftz flushes subnormal numbers to zero.
float flushed(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; }

template <class T, auto f>
void compare(Warp& w, const Instruction& i, u32 lanes) {
  u8* d = w.row<u8>(i.of[0]);
  u8* e = w.row<u8>(i.of[3]);
  const T *a = w.row<T>(i.of[1]), *b = w.row<T>(i.of[2]);
  if (i.combination == Combination::none) {
    for_lanes(lanes, [&](int l) {
      const bool is = f(a[l], b[l]);
      d[l] = is;
      e[l] = !is;
    });
    return;
  }
  const u8* c = w.row<u8>(i.of[4]);
  for_lanes(lanes, [&](int l) {
    const bool is = f(a[l], b[l]), other = (c[l] != 0) != i.is_negated;
    const auto both = [&](bool x) {
      return i.combination == Combination::both     ? x && other
             : i.combination == Combination::either ? x || other
                                                    : x != other;
    };
    d[l] = both(is);
    e[l] = both(!is);
  });
}

template <class T>
void add_comparisons(Handlers& handlers, const std::string& type) {
  handlers["setp.eq." + type] = compare<T, [](T a, T b) { return a == b; }>;
  if constexpr (std::is_floating_point_v<T>) {
    handlers["setp.ne." + type] = compare<T, [](T a, T b) { return a < b || b < a; }>;
    handlers["setp.equ." + type] = compare<T, [](T a, T b) { return !(a < b || b < a); }>;
    handlers["setp.neu." + type] = compare<T, [](T a, T b) { return a != b; }>;
    handlers["setp.ltu." + type] = compare<T, [](T a, T b) { return !(a >= b); }>;
    handlers["setp.leu." + type] = compare<T, [](T a, T b) { return !(b < a); }>;
    handlers["setp.gtu." + type] = compare<T, [](T a, T b) { return !(a <= b); }>;
    handlers["setp.geu." + type] = compare<T, [](T a, T b) { return !(a < b); }>;
    handlers["setp.num." + type] = compare<T, [](T a, T b) { return a == a && b == b; }>;
    handlers["setp.nan." + type] = compare<T, [](T a, T b) { return a != a || b != b; }>;
  } else {
    handlers["setp.ne." + type] = compare<T, [](T a, T b) { return a != b; }>;
  }
  handlers["setp.lt." + type] = compare<T, [](T a, T b) { return a < b; }>;
  handlers["setp.le." + type] = compare<T, [](T a, T b) { return a <= b; }>;
  handlers["setp.gt." + type] = compare<T, [](T a, T b) { return b < a; }>;
  handlers["setp.ge." + type] = compare<T, [](T a, T b) { return a >= b; }>;
  handlers["setp.lo." + type] = handlers["setp.lt." + type];
  handlers["setp.ls." + type] = handlers["setp.le." + type];
  handlers["setp.hi." + type] = handlers["setp.gt." + type];
  handlers["setp.hs." + type] = handlers["setp.ge." + type];
}

template <class T>
T bit_field(T a, u32 first, u32 count) {
  first &= 255;
  count &= 255;
  constexpr u32 size = 8 * sizeof(T);
  if (count == 0) return 0;
  const bool sign = std::is_signed_v<T> && (u64(a) >> std::min(first + count - 1, size - 1) & 1) != 0;
  T r = 0;
  for (u32 n = 0; n < size; ++n) {
    const bool bit = n < count && first + n < size ? (u64(a) >> (first + n) & 1) != 0 : sign;
    r = T(Bits<T>(r) | Bits<T>(Bits<T>(bit) << n));
  }
  return r;
}
template <class T>
void insert_bits(Warp& w, const Instruction& i, u32 lanes) {
  T* d = w.row<T>(i.of[0]);
  const T *a = w.row<T>(i.of[1]), *b = w.row<T>(i.of[2]);
  const u32 *first = w.row<u32>(i.of[3]), *count = w.row<u32>(i.of[4]);
  for_lanes(lanes, [&](int l) {
    T r = b[l];
    for (u32 n = 0; n < (count[l] & 255) && (first[l] & 255) + n < 8 * sizeof(T); ++n) {
      const T bit = T(T(1) << ((first[l] & 255) + n));
      r = T((a[l] >> n & 1) != 0 ? r | bit : r & ~bit);
    }
    d[l] = r;
  });
}

u32 permuted(u32 a, u32 b, u32 selector) {
  const u64 both = u64(b) << 32 | a;
  u32 r = 0;
  for (u32 n = 0; n < 4; ++n) {
    const u32 which = selector >> 4 * n & 15;
    u32 byte = u32(both >> 8 * (which & 7)) & 255;
    if ((which & 8) != 0) byte = (byte & 128) != 0 ? 255 : 0;
    r |= byte << 8 * n;
  }
  return r;
}

}  // namespace

void add_arithmetic(Handlers& handlers) {
  add_integers<u16>(handlers, "u16");
  add_integers<s16>(handlers, "s16");
  add_integers<u32>(handlers, "u32");
  add_integers<s32>(handlers, "s32");
  add_integers<u64>(handlers, "u64");
  add_integers<s64>(handlers, "s64");
  add_bits<u16>(handlers, "b16");
  add_bits<u32>(handlers, "b32");
  add_bits<u64>(handlers, "b64");
  add_floats<float>(handlers, "f32");
  add_floats<double>(handlers, "f64");
  add_comparisons<u16>(handlers, "u16");
  add_comparisons<s16>(handlers, "s16");
  add_comparisons<u16>(handlers, "b16");
  add_comparisons<u32>(handlers, "u32");
  add_comparisons<s32>(handlers, "s32");
  add_comparisons<u32>(handlers, "b32");
  add_comparisons<u64>(handlers, "u64");
  add_comparisons<s64>(handlers, "s64");
  add_comparisons<u64>(handlers, "b64");
  add_comparisons<float>(handlers, "f32");
  add_comparisons<double>(handlers, "f64");
  handlers["ex2.f32"] = each_lane<[](float a) { return flushed(float(std::exp2(double(flushed(a))))); }, float, float>;
  handlers["lg2.f32"] = each_lane<[](float a) { return float(std::log2(double(a))); }, float, float>;
  handlers["sin.f32"] = each_lane<[](float a) { return float(std::sin(double(a))); }, float, float>;
  handlers["cos.f32"] = each_lane<[](float a) { return float(std::cos(double(a))); }, float, float>;
  handlers["tanh.f32"] = each_lane<[](float a) { return float(std::tanh(double(a))); }, float, float>;
  handlers["rcp.f64"] = each_lane<[](double a) { return 1.0 / a; }, double, double>;
  handlers["fma.rz.f32"] =
      each_lane<[](float a, float b, float c) { return std::fma(a, b, c); }, float, float, float, float>;
  handlers["and.pred"] = each_lane<[](u8 a, u8 b) { return u8(a != 0 && b != 0); }, u8, u8, u8>;
  handlers["or.pred"] = each_lane<[](u8 a, u8 b) { return u8(a != 0 || b != 0); }, u8, u8, u8>;
  handlers["xor.pred"] = each_lane<[](u8 a, u8 b) { return u8((a != 0) != (b != 0)); }, u8, u8, u8>;
  handlers["not.pred"] = each_lane<[](u8 a) { return u8(a == 0); }, u8, u8>;
  handlers["mov.pred"] = each_lane<[](u8 a) { return a; }, u8, u8>;
  handlers["bfe.u32"] = each_lane<bit_field<u32>, u32, u32, u32, u32>;
  handlers["bfe.s32"] = each_lane<bit_field<s32>, s32, s32, u32, u32>;
  handlers["bfe.u64"] = each_lane<bit_field<u64>, u64, u64, u32, u32>;
  handlers["bfe.s64"] = each_lane<bit_field<s64>, s64, s64, u32, u32>;
  handlers["bfi.b32"] = insert_bits<u32>;
  handlers["bfi.b64"] = insert_bits<u64>;
  handlers["prmt.b32"] = each_lane<permuted, u32, u32, u32, u32>;
  handlers["bfind.u32"] = each_lane<[](u32 a) { return a == 0 ? ~u32(0) : 31 - u32(std::countl_zero(a)); }, u32, u32>;
  handlers["bfind.u64"] = each_lane<[](u64 a) { return a == 0 ? ~u32(0) : 63 - u32(std::countl_zero(a)); }, u32, u64>;
  handlers["shf.l.wrap.b32"] =
      each_lane<[](u32 a, u32 b, u32 n) { return u32((u64(b) << 32 | a) << (n & 31) >> 32); }, u32, u32, u32, u32>;
  handlers["shf.r.wrap.b32"] =
      each_lane<[](u32 a, u32 b, u32 n) { return u32((u64(b) << 32 | a) >> (n & 31)); }, u32, u32, u32, u32>;
  handlers["shf.r.clamp.b32"] =
      each_lane<[](u32 a, u32 b, u32 n) { return u32((u64(b) << 32 | a) >> (32 < n ? 32 : n)); }, u32, u32, u32, u32>;
  handlers["lop3.b32"] = [](Warp& w, const Instruction& i, u32 lanes) {
    u32* d = w.row<u32>(i.of[0]);
    const u32 *a = w.row<u32>(i.of[1]), *b = w.row<u32>(i.of[2]), *c = w.row<u32>(i.of[3]),
              *table = w.row<u32>(i.of[4]);
    for_lanes(lanes, [&](int l) {
      u32 r = 0;
      for (u32 n = 0; n < 32; ++n)
        r |= (table[l] >> ((a[l] >> n & 1) * 4 + (b[l] >> n & 1) * 2 + (c[l] >> n & 1)) & 1) << n;
      d[l] = r;
    });
  };
}

Handler handler_of(const std::string& name) {
  static const Handlers* const handlers = [] {
    auto* made = new Handlers;
    add_arithmetic(*made);
    add_carries(*made);
    add_conversions(*made);
    add_memory(*made);
    add_warp_wide(*made);
    return made;
  }();
  const auto entry = handlers->find(name);
  return entry == handlers->end() ? nullptr : entry->second;
}

}  // namespace emulated_gpu
