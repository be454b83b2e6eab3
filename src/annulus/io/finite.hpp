// Looks for numbers that are none.
#pragma once

#include <optional>

#include "annulus/core/types.hpp"

namespace annulus::io {

/// A NaN or infinity at position `index` of an array.
struct NonFinite {
  core::Index index = 0;
  double value = 0;
};

/// The first NaN or infinity among `count` numbers of a storage type.
std::optional<NonFinite> find_non_finite(const void* numbers, core::DType type, core::Index count);

}  // namespace annulus::io
