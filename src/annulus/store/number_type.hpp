// How the numbers of a dataset are stored, and which of them stand for missing ones.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "annulus/core/types.hpp"

namespace annulus::store {

/// A storage type of tensors, or int64, as which numbers of rows are stored.
class NumberType {
 public:
  constexpr NumberType(core::DType type) : dtype_(type) {}
  static constexpr NumberType int64() { return {}; }

  constexpr const std::optional<core::DType>& dtype() const { return dtype_; }  ///< empty: int64
  bool operator==(const NumberType&) const = default;

 private:
  constexpr NumberType() = default;

  std::optional<core::DType> dtype_;
};

/// Whole numbers are moved as they are, as if they were these.
inline constexpr core::DType bits_of_int64 = core::DType::float64;

constexpr std::size_t bytes_of(NumberType type) { return type.dtype() ? core::bytes_of(*type.dtype()) : 8; }
constexpr std::string_view name_of(NumberType type) { return type.dtype() ? core::name_of(*type.dtype()) : "int64"; }

/// Numbers in memory and their storage type.
struct Numbers {
  void* data = nullptr;
  NumberType type = core::DType::float32;
};
/// Number i of `to` becomes number i of `from`, i < count, rounded to nearest where `to` has fewer bits: what lies
/// beyond its range becomes infinite. They do not overlap; int64 becomes int64 only.
void convert(const Numbers& from, const Numbers& to, core::Index count);

/// A number that stands for a missing one, and the attribute of its dataset that says so: netCDF's _FillValue or
/// missing_value.
struct MissingValue {
  std::string attribute;
  double value = 0;
};
using MissingValues = std::vector<MissingValue>;

}  // namespace annulus::store
