// Numbers from one storage type to another.
#pragma once

#include "annulus/store/number_type.hpp"

namespace annulus::store {

/// Numbers in memory and their storage type.
struct Numbers {
  void* data = nullptr;
  NumberType type = core::DType::float32;
};

/// Number i of `to` becomes number i of `from`, i < count, rounded to nearest where `to` has fewer bits: what lies
/// beyond its range becomes infinite. They do not overlap; int64 becomes int64 only.
void convert(const Numbers& from, const Numbers& to, core::Index count);

}  // namespace annulus::store
