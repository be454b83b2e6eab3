// Datasets of files that the program made.
#pragma once

#include <gtest/gtest.h>
#include <hdf5.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

namespace annulus::test {

/// A dataset as doubles, whatever its stored type.
inline std::vector<double> numbers(const std::filesystem::path& file, const std::string& dataset) {
  const hid_t open = H5Fopen(file.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t data = H5Dopen2(open, dataset.c_str(), H5P_DEFAULT);
  const hid_t space = H5Dget_space(data);
  std::vector<double> values(std::size_t(H5Sget_simple_extent_npoints(space)));
  EXPECT_GE(H5Dread(data, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0) << dataset;
  H5Sclose(space);
  H5Dclose(data);
  H5Fclose(open);
  return values;
}

/// Adds `amount` to number `index` of a dataset.
inline void spoil(const std::filesystem::path& path, const std::string& dataset, std::size_t index, double amount) {
  std::vector<double> values = numbers(path, dataset);
  values.at(index) += amount;
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  const hid_t data = H5Dopen2(file, dataset.c_str(), H5P_DEFAULT);
  ASSERT_GE(H5Dwrite(data, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0) << dataset;
  H5Dclose(data);
  H5Fclose(file);
}

inline double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (a[i] != b[i]) largest = std::max(largest, std::abs(a[i] - b[i]));  // equal infinities differ by nothing
  }
  return largest;
}

}  // namespace annulus::test
