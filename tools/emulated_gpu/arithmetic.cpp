// Numbers of each lane: integers, bits, floats, comparisons.
#include <cmath>
#include <limits>
#include <type_traits>

#include "handlers.hpp"

namespace emulated_gpu {
namespace {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s16 = std::int16_t;
using s32 = std::int32_t;
using s64 = std::int64_t;

template <class D, class S, auto f>
void unary(Warp& w, const Instruction& i, u32 lanes) {
  D* d = w.row<D>(i.of[0]);
  const S* a = w.row<S>(i.of[1]);
  for_lanes(lanes, [&](int l) { d[l] = D(f(a[l])); });
}
template <class D, class A, class B, auto f>
void binary(Warp& w, const Instruction& i, u32 lanes) {
  D* d = w.row<D>(i.of[0]);
  const A* a = w.row<A>(i.of[1]);
  const B* b = w.row<B>(i.of[2]);
  for_lanes(lanes, [&](int l) { d[l] = D(f(a[l], b[l])); });
}
template <class D, class A, class B, class C, auto f>
void ternary(Warp& w, const Instruction& i, u32 lanes) {
  D* d = w.row<D>(i.of[0]);
  const A* a = w.row<A>(i.of[1]);
  const B* b = w.row<B>(i.of[2]);
  const C* c = w.row<C>(i.of[3]);
  for_lanes(lanes, [&](int l) { d[l] = D(f(a[l], b[l], c[l])); });
}

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

template <class T>
struct Twice;
template <>
struct Twice<u16> {
  using type = u32;
};
template <>
struct Twice<s16> {
  using type = s32;
};
template <>
struct Twice<u32> {
  using type = u64;
};
template <>
struct Twice<s32> {
  using type = s64;
};
template <>
struct Twice<u64> {
  using type = unsigned __int128;
};
template <>
struct Twice<s64> {
  using type = __int128;
};

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
  using W = typename Twice<T>::type;
  handlers["add." + type] = binary<T, T, T, [](T a, T b) { return T(Bits<T>(a) + Bits<T>(b)); }>;
  handlers["sub." + type] = binary<T, T, T, [](T a, T b) { return T(Bits<T>(a) - Bits<T>(b)); }>;
  handlers["mul." + type] = binary<T, T, T, [](T a, T b) { return T(u64(a) * u64(b)); }>;
  handlers["mul.hi." + type] = binary<T, T, T, [](T a, T b) { return T(W(a) * W(b) >> 8 * sizeof(T)); }>;
  handlers["mad." + type] = ternary<T, T, T, T, [](T a, T b, T c) { return T(u64(a) * u64(b) + u64(c)); }>;
  handlers["mad.hi." + type] =
      ternary<T, T, T, T, [](T a, T b, T c) { return T(u64(T(W(a) * W(b) >> 8 * sizeof(T))) + u64(c)); }>;
  if constexpr (sizeof(T) < 8) {
    handlers["mul.wide." + type] = binary<W, T, T, [](T a, T b) { return W(a) * W(b); }>;
    handlers["mad.wide." + type] =
        ternary<W, T, T, W, [](T a, T b, W c) { return W(Bits<W>(W(a) * W(b)) + Bits<W>(c)); }>;
  }
  handlers["div." + type] = binary<T, T, T, quotient<T>>;
  handlers["rem." + type] = binary<T, T, T, rest<T>>;
  handlers["min." + type] = binary<T, T, T, smaller<T>>;
  handlers["max." + type] = binary<T, T, T, larger<T>>;
  handlers["neg." + type] = unary<T, T, [](T a) { return T(Bits<T>(0) - Bits<T>(a)); }>;
  handlers["abs." + type] = unary<T, T, [](T a) { return a < 0 ? T(Bits<T>(0) - Bits<T>(a)) : a; }>;
  handlers["shr." + type] = binary<T, T, u32, shifted_right<T>>;
}

template <class T>
void add_bits(Handlers& handlers, const std::string& type) {
  handlers["and." + type] = binary<T, T, T, [](T a, T b) { return T(a & b); }>;
  handlers["or." + type] = binary<T, T, T, [](T a, T b) { return T(a | b); }>;
  handlers["xor." + type] = binary<T, T, T, [](T a, T b) { return T(a ^ b); }>;
  handlers["not." + type] = unary<T, T, [](T a) { return T(~a); }>;
  handlers["shl." + type] = binary<T, T, u32, shifted_left<T>>;
  handlers["shr." + type] = binary<T, T, u32, shifted_right<T>>;
  handlers["mov." + type] = unary<T, T, [](T a) { return a; }>;
  handlers["popc." + type] = unary<u32, T, [](T a) { return u32(std::popcount(a)); }>;
  handlers["clz." + type] = unary<u32, T, [](T a) { return u32(std::countl_zero(a)); }>;
  handlers["brev." + type] = unary<T, T, [](T a) {
    T r = 0;
    for (unsigned n = 0; n < 8 * sizeof(T); ++n) r = T(r << 1 | (a >> n & 1));
    return r;
  }>;
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
  handlers["add." + type] = binary<T, T, T, [](T a, T b) { return a + b; }>;
  handlers["sub." + type] = binary<T, T, T, [](T a, T b) { return a - b; }>;
  handlers["mul." + type] = binary<T, T, T, [](T a, T b) { return a * b; }>;
  handlers["div." + type] = binary<T, T, T, [](T a, T b) { return a / b; }>;
  handlers["fma." + type] = ternary<T, T, T, T, [](T a, T b, T c) { return std::fma(a, b, c); }>;
  handlers["fused.add." + type] = handlers["fma." + type];
  handlers["fused.sub." + type] = ternary<T, T, T, T, [](T a, T b, T c) { return std::fma(a, b, -c); }>;
  handlers["fused.from." + type] = ternary<T, T, T, T, [](T a, T b, T c) { return std::fma(-a, b, c); }>;
  handlers["min." + type] = binary<T, T, T, smaller<T>>;
  handlers["max." + type] = binary<T, T, T, larger<T>>;
  handlers["min.NaN." + type] =
      binary<T, T, T, [](T a, T b) { return a != a || b != b ? std::numeric_limits<T>::quiet_NaN() : smaller(a, b); }>;
  handlers["max.NaN." + type] =
      binary<T, T, T, [](T a, T b) { return a != a || b != b ? std::numeric_limits<T>::quiet_NaN() : larger(a, b); }>;
  handlers["neg." + type] = unary<T, T, [](T a) { return -a; }>;
  handlers["abs." + type] = unary<T, T, [](T a) { return std::fabs(a); }>;
  handlers["copysign." + type] = binary<T, T, T, [](T a, T b) { return std::copysign(b, a); }>;
  handlers["rcp." + type] = unary<T, T, [](T a) { return T(1) / a; }>;
  handlers["sqrt." + type] = unary<T, T, [](T a) { return std::sqrt(a); }>;
  handlers["rsqrt." + type] = unary<T, T, [](T a) { return T(1.0 / std::sqrt(double(a))); }>;
  handlers["testp.infinite." + type] = unary<u8, T, [](T a) { return std::isinf(a); }>;
  handlers["testp.finite." + type] = unary<u8, T, [](T a) { return std::isfinite(a); }>;
  handlers["testp.number." + type] = unary<u8, T, [](T a) { return !std::isnan(a); }>;
  handlers["testp.notanumber." + type] = unary<u8, T, [](T a) { return std::isnan(a); }>;
  handlers["testp.subnormal." + type] = unary<u8, T, [](T a) { return std::fpclassify(a) == FP_SUBNORMAL; }>;
}

// What is flushed to zero by .ftz: these three are used with it only where it is asked for; small numbers vanish.
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
  handlers["ex2.f32"] = unary<float, float, [](float a) { return flushed(float(std::exp2(double(flushed(a))))); }>;
  handlers["lg2.f32"] = unary<float, float, [](float a) { return float(std::log2(double(a))); }>;
  handlers["sin.f32"] = unary<float, float, [](float a) { return float(std::sin(double(a))); }>;
  handlers["cos.f32"] = unary<float, float, [](float a) { return float(std::cos(double(a))); }>;
  handlers["tanh.f32"] = unary<float, float, [](float a) { return float(std::tanh(double(a))); }>;
  handlers["rcp.f64"] = unary<double, double, [](double a) { return 1.0 / a; }>;
  handlers["fma.rz.f32"] =
      ternary<float, float, float, float, [](float a, float b, float c) { return std::fma(a, b, c); }>;
  handlers["and.pred"] = binary<u8, u8, u8, [](u8 a, u8 b) { return u8(a != 0 && b != 0); }>;
  handlers["or.pred"] = binary<u8, u8, u8, [](u8 a, u8 b) { return u8(a != 0 || b != 0); }>;
  handlers["xor.pred"] = binary<u8, u8, u8, [](u8 a, u8 b) { return u8((a != 0) != (b != 0)); }>;
  handlers["not.pred"] = unary<u8, u8, [](u8 a) { return u8(a == 0); }>;
  handlers["mov.pred"] = unary<u8, u8, [](u8 a) { return a; }>;
  handlers["bfe.u32"] = ternary<u32, u32, u32, u32, bit_field<u32>>;
  handlers["bfe.s32"] = ternary<s32, s32, u32, u32, bit_field<s32>>;
  handlers["bfe.u64"] = ternary<u64, u64, u32, u32, bit_field<u64>>;
  handlers["bfe.s64"] = ternary<s64, s64, u32, u32, bit_field<s64>>;
  handlers["bfi.b32"] = insert_bits<u32>;
  handlers["bfi.b64"] = insert_bits<u64>;
  handlers["prmt.b32"] = ternary<u32, u32, u32, u32, permuted>;
  handlers["bfind.u32"] = unary<u32, u32, [](u32 a) { return a == 0 ? ~u32(0) : 31 - u32(std::countl_zero(a)); }>;
  handlers["bfind.u64"] = unary<u32, u64, [](u64 a) { return a == 0 ? ~u32(0) : 63 - u32(std::countl_zero(a)); }>;
  handlers["shf.l.wrap.b32"] =
      ternary<u32, u32, u32, u32, [](u32 a, u32 b, u32 n) { return u32((u64(b) << 32 | a) << (n & 31) >> 32); }>;
  handlers["shf.r.wrap.b32"] =
      ternary<u32, u32, u32, u32, [](u32 a, u32 b, u32 n) { return u32((u64(b) << 32 | a) >> (n & 31)); }>;
  handlers["shf.r.clamp.b32"] =
      ternary<u32, u32, u32, u32, [](u32 a, u32 b, u32 n) { return u32((u64(b) << 32 | a) >> (32 < n ? 32 : n)); }>;
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
