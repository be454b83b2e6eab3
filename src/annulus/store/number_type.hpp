// The types of a dataset's numbers, conversion between them, and numbers that mean "missing".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "annulus/core/types.hpp"

namespace annulus::store {

/// A storage type of tensors, or int64, which is the type of row numbers.
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

/// Functions that only move numbers treat int64 as this type, because float64 has 8 bytes, too.
inline constexpr core::DType bits_of_int64 = core::DType::float64;

constexpr std::size_t bytes_of(NumberType type) { return type.dtype() ? core::bytes_of(*type.dtype()) : 8; }
constexpr std::string_view name_of(NumberType type) { return type.dtype() ? core::name_of(*type.dtype()) : "int64"; }

/// Numbers in memory, with their storage type.
struct Numbers {
  void* data = nullptr;
  NumberType type = core::DType::float32;
};
/// Writes the first `count` numbers of `from` to `to`, rounded to nearest (from float64 to 16 bits by way of float32).
/// Numbers that are too large become infinite. `from` and `to` must not overlap. int64 converts only to int64.
void convert(const Numbers& from, const Numbers& to, core::Index count);

/// A number that means "missing", and the dataset's attribute that says so: _FillValue or missing_value of netCDF. For
/// netCDF's usual fill value, which no attribute states, `attribute` is by_netcdf.
struct MissingValue {
  std::string attribute;
  double value = 0;
};
using MissingValues = std::vector<MissingValue>;

constexpr const char* by_netcdf = "netCDF";
constexpr double netcdf_fill = 0x1.ep+122;  ///< netCDF's usual fill value of floats, 9.97e36; float32 can hold it

}  // namespace annulus::store
