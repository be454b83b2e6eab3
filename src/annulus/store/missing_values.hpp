// Numbers that stand for missing ones: netCDF's attributes _FillValue and missing_value name them.
#pragma once

#include <string>
#include <vector>

namespace annulus::store {

/// A number that stands for a missing one, and the attribute of its dataset that says so.
struct MissingValue {
  std::string attribute;
  double value = 0;
};
using MissingValues = std::vector<MissingValue>;

}  // namespace annulus::store
