// Says which row numbers the queries have, if the queries are other rows than the keys.
#pragma once

#include "annulus/core/types.hpp"

namespace annulus::pattern {

/// last: the last numbers of the sequence. row: the numbers from `row` on. none: no numbers, so queries see all keys.
struct QueryOffset {
  enum class Kind { last, row, none };
  Kind kind = Kind::last;
  core::Index row = 0;

  bool operator==(const QueryOffset&) const = default;
};

}  // namespace annulus::pattern
