// At which rows of the sequence the queries are, if they have other rows than the keys.
#pragma once

#include "annulus/core/types.hpp"

namespace annulus::pattern {

/// last: at the last rows of the sequence. row: from that row on. none: without row numbers, they see every key.
struct QueryOffset {
  enum class Kind { last, row, none };
  Kind kind = Kind::last;
  core::Index row = 0;

  bool operator==(const QueryOffset&) const = default;
};

}  // namespace annulus::pattern
