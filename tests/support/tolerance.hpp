// GoogleTest words for the tolerances of annulus/core/tolerance.hpp.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <span>

#include "annulus/core/tolerance.hpp"

namespace annulus::test {

/// EXPECT_TRUE(close_to(actual, reference, core::forward_tolerance(type))): says the error, the limit, and the number
/// that is furthest off.
inline testing::AssertionResult close_to(std::span<const double> actual, std::span<const double> reference,
                                         double tolerance) {
  if (actual.size() != reference.size()) {
    return testing::AssertionFailure() << actual.size() << " numbers instead of " << reference.size();
  }
  const double error = core::error_of(actual, reference);
  if (error <= tolerance) return testing::AssertionSuccess();
  std::size_t worst = 0;
  double largest = -1;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    const double here = core::error_of(actual.subspan(i, 1), reference.subspan(i, 1));
    if (here > largest) {
      largest = here;
      worst = i;
    }
  }
  return testing::AssertionFailure() << "error " << error << " > " << tolerance << "; number " << worst << " of "
                                     << actual.size() << " is " << actual[worst] << " instead of " << reference[worst];
}

}  // namespace annulus::test
