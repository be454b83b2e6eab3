// Turns a storage type that is known only at run time into a C++ type.
#pragma once

#include "annulus/core/storage.hpp"
#include "annulus/core/types.hpp"

namespace annulus::core {

/// Calls visit(Number{}), where Number is the C++ type that stores `type`.
template <class Visit>
void with_type(DType type, Visit&& visit) {
  switch (type) {
    case DType::float64:
      return visit(double{});
    case DType::float32:
      return visit(float{});
    case DType::float16:
      return visit(Half{});
    case DType::bfloat16:
      return visit(BFloat16{});
  }
}

/// Calls visit(Number{}), where Number is the C++ type of sums: float or double.
template <class Visit>
auto with_precision(Precision precision, Visit&& visit) {
  return precision == Precision::float64 ? visit(double{}) : visit(float{});
}

}  // namespace annulus::core
