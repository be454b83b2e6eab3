// How far a result may lie from the float64 definition: what `verify` allows and the tests hold.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "annulus/core/types.hpp"

namespace annulus::core {

/// Largest error_of() of out and lse, by the type the tensors are stored in.
constexpr double forward_tolerance(DType type) {
  switch (type) {
    case DType::float64:
      return 1e-12;
    case DType::float32:
      return 1e-5;
    case DType::float16:
      return 3e-3;
    case DType::bfloat16:
      return 2e-2;
  }
  return 0;
}

/// The same for dq, dk, dv, which sum more rounded terms.
constexpr double gradient_tolerance(DType type) {
  switch (type) {
    case DType::float64:
      return 1e-11;
    case DType::float32:
      return 3e-5;
    default:
      return forward_tolerance(type);
  }
}

/// max |actual - reference| / max(1, max |reference|) over two ranges of one length; infinity as soon as one number is
/// not finite and the other is not the same infinity (the lse of a row without keys is -inf in both).
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

}  // namespace annulus::core
