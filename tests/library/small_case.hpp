// A problem that is small enough to try every layout of every type; ranks have unequal numbers of rows.
#pragma once

#include "library_case.hpp"

namespace annulus::test {

const Shape small{.batch = 2, .sequence = 37, .heads = 4, .kv_heads = 2, .head_dim = 5};
const Pattern dilated{.segments = {8, all}, .dilations = {1, 3}, .causal = true};

inline Shape with_type(Shape shape, DType type) {
  shape.type = type;
  return shape;
}

}  // namespace annulus::test
