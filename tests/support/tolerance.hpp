// How far numbers are from the expected ones; annulus/core/tolerance.hpp has the limits.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "annulus/core/tolerance.hpp"

namespace annulus::test {

/// max |actual - reference| / max(1, max |reference|) over two ranges of the same length; infinity if any number is not
/// finite, unless both are the same infinity (the lse of a row without keys is -inf in both).
inline double error_of(std::span<const double> actual, std::span<const double> reference) {
  double error = 0;
  double size = 1;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    if (actual[i] == reference[i] && std::isinf(reference[i])) continue;
    if (!std::isfinite(actual[i]) || !std::isfinite(reference[i])) return std::numeric_limits<double>::infinity();
    error = std::max(error, std::abs(actual[i] - reference[i]));
    size = std::max(size, std::abs(reference[i]));
  }
  return error / size;
}

/// max |a - b|; infinity if there is a NaN, or if the lengths differ. Equal infinities differ by 0.
inline double largest_difference(std::span<const double> a, std::span<const double> b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = a[i] == b[i] ? 0 : std::abs(a[i] - b[i]);
    if (std::isnan(difference)) return std::numeric_limits<double>::infinity();
    largest = std::max(largest, difference);
  }
  return largest;
}

/// Whether both ranges have the same length, and error_of() is at most `tolerance`. The message has the error, the
/// limit, and the number with the largest error. Use: EXPECT_TRUE(close_to(actual, reference,
/// core::forward_tolerance(type))). Two empty ranges are close, because a rank without rows has no numbers.
inline testing::AssertionResult close_to(std::span<const double> actual, std::span<const double> reference,
                                         double tolerance) {
  if (actual.size() != reference.size()) {
    return testing::AssertionFailure() << actual.size() << " numbers instead of " << reference.size();
  }
  const double error = error_of(actual, reference);
  if (error <= tolerance) return testing::AssertionSuccess();
  std::size_t worst = 0;
  double largest = -1;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    const double here = error_of(actual.subspan(i, 1), reference.subspan(i, 1));
    if (here > largest) {
      largest = here;
      worst = i;
    }
  }
  return testing::AssertionFailure() << "error " << error << " > " << tolerance << "; number " << worst << " of "
                                     << actual.size() << " is " << actual[worst] << " instead of " << reference[worst];
}

}  // namespace annulus::test
