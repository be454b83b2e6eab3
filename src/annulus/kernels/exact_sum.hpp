// Adds float64 numbers without rounding, so that a sum's bits depend neither on the order of the terms nor on the
// number of ranks.
//
// Every finite float64 number is a multiple of 2^-1074 below 2^1024, so an integer of about 2,100 bits holds any sum
// (U. Kulisch's long accumulator). Digit i of this integer has 32 bits and counts units of 2^(32 i - 1074). Each digit
// is stored in a word of 64 bits, so that 2^31 numbers can be added before carries must be moved up. Worked example: 1
// is 2^1074 units of 2^-1074, and 1074 = 33 * 32 + 18, so 1 adds 2^18 to digit 33.
#pragma once

#include <Kokkos_Core.hpp>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "annulus/core/types.hpp"

namespace annulus::kernels {

/// Number of digits of a sum. The largest float64 number begins in digit 63 and reaches digit 65. The last digit, 66,
/// holds the sign and the carries.
inline constexpr int exact_digits = 67;
/// Number of words of a sum: its digits, and after them one word that counts the terms that were NaN or infinite. In a
/// sum without terms all words are 0.
inline constexpr int exact_words = exact_digits + 1;

/// Adds x to the sum `words`.
KOKKOS_INLINE_FUNCTION void add_exactly(std::int64_t* words, double x) {
  std::uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  const int exponent = int(bits >> 52 & 0x7ff);
  if (exponent == 0x7ff) {
    ++words[exact_digits];
    return;
  }
  // |x| = fraction * 2^(shift - 1074); the shifted fraction spans three digits at most.
  const std::uint64_t fraction = (bits & ((std::uint64_t(1) << 52) - 1)) | (std::uint64_t(exponent > 0) << 52);
  const int shift = exponent > 0 ? exponent - 1 : 0, within = shift % 32;
  const std::uint64_t digit = 0xffffffff;
  const std::int64_t sign = bits >> 63 ? -1 : 1;
  std::int64_t* const first = words + shift / 32;
  first[0] += sign * std::int64_t(fraction << within & digit);
  first[1] += sign * std::int64_t(fraction >> (32 - within) & digit);
  first[2] += sign * std::int64_t(fraction >> 32 >> (32 - within));
}

/// Brings all digits except the last into 0 ... 2^32 - 1. Equal sums then have equal words, however their terms were
/// added.
KOKKOS_INLINE_FUNCTION void carry_exactly(std::int64_t* words) {
  for (int i = 0; i + 1 < exact_digits; ++i) {
    const std::int64_t carried = words[i] >> 32;  // rounded down, so words[i] does not become negative
    words[i] -= carried * (std::int64_t(1) << 32);
    words[i + 1] += carried;
  }
}

/// Returns the sum with an error of about one unit in the last place at most, and NaN if a term was NaN or infinite.
/// Equal sums give the same bits. For host code.
inline double exact_value(const std::int64_t* words) {
  if (words[exact_digits] != 0) return std::numeric_limits<double>::quiet_NaN();
  std::int64_t digits[exact_words];
  std::memcpy(digits, words, sizeof digits);
  carry_exactly(digits);
  const bool is_negative = digits[exact_digits - 1] < 0;
  for (int i = 0; is_negative && i < exact_digits; ++i) digits[i] = -digits[i];
  carry_exactly(digits);
  int top = exact_digits - 1;
  while (top > 0 && digits[top] == 0) --top;
  double sum = 0;  // in units of digit top - 2
  for (int i = top; i > top - 3; --i) sum = sum * 0x1p32 + (i < 0 ? 0 : double(digits[i]));
  const double value = std::ldexp(sum, 32 * (top - 2) - 1074);
  return is_negative ? -value : value;
}

}  // namespace annulus::kernels
