// How the numbers of a dataset are stored.
#pragma once

#include <optional>
#include <string_view>

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

}  // namespace annulus::store
