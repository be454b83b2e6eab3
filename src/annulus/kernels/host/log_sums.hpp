// Computes logarithms of the sums l of several rows at once, for their LSEs. (The C library takes one number at a
// time.) Compilers turn this plain arithmetic into vector code. It has no fused multiply-adds, so bits are the same on
// every processor.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>

namespace annulus::kernels::host {

/// Sums l, split into l = f 2^e with 1/sqrt(2) <= f < sqrt(2). Results made from f and m + e depend only on l 2^m, not
/// on l and m themselves. Worked example: l = 6 is 0.75 * 2^3.
struct SplitSums {
  static constexpr int most = 32;
  double f[most];
  double e[most];
  double log_f[most];  // natural
};

/// Returns ln f for 1/sqrt(2) <= f < sqrt(2), with an error below one unit in the last place. x = f - 1 is exact. With
/// s = x / (2 + x) and z = s^2, ln f = 2 atanh(s) = 2 s + s z (2/3 + 2/5 z + ...), and 2 s is x - s x. The minimax
/// polynomial in z has an error of 3.2e-16, which the factor s z reduces to 1.6e-18.
inline double log_near_one(double f) {
  constexpr double c[] = {0.666666666666667,   0.39999999999898506, 0.28571428626371254, 0.22222211077399734,
                          0.18182892887123378, 0.15331607967937536, 0.1461773676993849};
  const double x = f - 1, s = x / (2 + x), z = s * s;
  const double r = z * (c[0] + z * (c[1] + z * (c[2] + z * (c[3] + z * (c[4] + z * (c[5] + z * c[6]))))));
  return x - s * (x - r);
}

/// Returns n ln 2 + log_f. The first product is exact for whole n up to 2^22.
inline double log_of_scaled(double n, double log_f) {
  constexpr double high = 0x1.62e42fecp-1, low = 0x1.d1cf79abc9e3bp-32;
  return n * high + (n * low + log_f);
}

/// Splits any sum, including 0, infinity, NaN and numbers too small for a full mantissa.
inline void split_any_sum(double l, int i, SplitSums& to) {
  int e = 0;
  double f = std::frexp(l, &e);
  if (f < std::numbers::sqrt2 / 2) {
    f *= 2;
    --e;
  }
  to.f[i] = f;
  to.e[i] = e;
  to.log_f[i] = std::isfinite(f) ? log_near_one(f) : f;
}

/// Splits `count` sums, at most SplitSums::most.
template <class T>
void split_sums(const T* l, int count, SplitSums& to) {
  constexpr std::uint64_t root = std::bit_cast<std::uint64_t>(std::numbers::sqrt2 / 2);
  constexpr std::uint64_t one = std::bit_cast<std::uint64_t>(1.0), mantissa = (std::uint64_t(1) << 52) - 1;
  constexpr std::uint64_t as_integer = std::bit_cast<std::uint64_t>(0x1p52);
  for (int i = 0; i < count; ++i) {
    // This integer subtraction turns the bits of sqrt(1/2) into those of 1, so that the exponent in `bits` is e + 1023.
    const std::uint64_t bits = std::bit_cast<std::uint64_t>(double(l[i])) - root + one;
    to.f[i] = std::bit_cast<double>((bits & mantissa) + root);
    to.e[i] = std::bit_cast<double>(bits >> 52 | as_integer) - (0x1p52 + 1023);
  }
  for (int i = 0; i < count; ++i) to.log_f[i] = log_near_one(to.f[i]);
  for (int i = 0; i < count; ++i) {
    const double sum = double(l[i]);
    if (!(sum >= std::numeric_limits<double>::min() && sum <= std::numeric_limits<double>::max()))
      split_any_sum(sum, i, to);
  }
}

}  // namespace annulus::kernels::host
