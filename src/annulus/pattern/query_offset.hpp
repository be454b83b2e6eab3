// Where the queries of a problem stand, which may have other rows than the keys.
#pragma once

#include "annulus/core/types.hpp"

namespace annulus::pattern {

/// At the last rows of the sequence, at those from a row on, or nowhere: queries without row numbers see every key.
struct QueryOffset {
  enum class Kind { last, row, none };
  Kind kind = Kind::last;
  core::Index row = 0;

  bool operator==(const QueryOffset&) const = default;
};

}  // namespace annulus::pattern
