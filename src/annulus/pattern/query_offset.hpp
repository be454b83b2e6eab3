// Says which row numbers the queries have, if the queries are other rows than the keys.
#pragma once

#include "annulus/core/types.hpp"

namespace annulus::pattern {

/// last: queries are the last rows of the sequence. row: queries are the rows from `row` on. none: queries have no row
/// numbers, so they see all keys.
struct QueryOffset {
  enum class Kind { last, row, none };
  Kind kind = Kind::last;
  core::Index row = 0;

  bool operator==(const QueryOffset&) const = default;
};

}  // namespace annulus::pattern
