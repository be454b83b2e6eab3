// Defines tolerances: how far a result may differ from the float64 definition. `verify` and the tests use these
// numbers.
#pragma once

#include <algorithm>

#include "annulus/core/types.hpp"

namespace annulus::core {

/// Returns how large max |difference| / max(1, max |reference|) of out and lse may be if tensors are stored as `type`.
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

/// Returns the tolerance of dq, dk and dv, which are sums of more rounded terms than out and lse. So the tolerances for
/// float64 and float32 are larger.
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

/// Returns the type whose tolerances results of this precision must meet. The result for 3xbfloat16 is not used,
/// because 3xbfloat16 has tolerances of its own (below). TF32 numbers have mantissas as long as those of float16
/// numbers. In precision bfloat16 the weights are rounded to bfloat16 before they multiply v.
constexpr DType rounding_of(Precision precision) {
  return precision == Precision::tf32       ? DType::float16
         : precision == Precision::bfloat16 ? DType::bfloat16
                                            : type_of(precision);
}

/// Returns how much rounding may change a score of size 1. In precision bfloat16, q and k are bfloat16 numbers already,
/// and are not rounded again.
constexpr double score_rounding(Precision precision) {
  switch (precision) {
    case Precision::float64:
      return 0x1p-53;
    case Precision::tf32:
      return 0x1p-11;
    case Precision::three_tf32:
      return 0x1p-22;
    case Precision::three_bfloat16:
      return 0x1p-17;
    default:
      return 0x1p-24;
  }
}

/// Return the tolerance for a precision of the computation, for rows whose scores have sizes up to `scores`. The
/// tolerance grows with `scores`, because rounding changes a large score, and so its weight, by more. A result may
/// differ by the largest of this tolerance and the tolerances for the types in which tensors are stored.
constexpr double forward_tolerance(Precision precision, double scores = 0) {
  const double least = precision == Precision::three_bfloat16 ? 1e-4 : forward_tolerance(rounding_of(precision));
  return std::max(least, 2 * scores * score_rounding(precision));
}
constexpr double gradient_tolerance(Precision precision, double scores = 0) {
  const double least = precision == Precision::three_bfloat16 ? 3e-4 : gradient_tolerance(rounding_of(precision));
  return std::max(least, 6 * scores * score_rounding(precision));
}

}  // namespace annulus::core
