// Reads, adds and changes datasets of HDF5 files.
#pragma once

#include <gtest/gtest.h>
#include <hdf5.h>

#include <filesystem>
#include <string>
#include <vector>

#include "support/tolerance.hpp"

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

/// A text attribute, of variable length, of an object in the file; "/" is the root group.
inline std::string text_attribute(const std::filesystem::path& file, const char* object, const char* name) {
  const hid_t open = H5Fopen(file.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t attribute = H5Aopen_by_name(open, object, name, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t type = H5Aget_type(attribute);
  char* words = nullptr;
  EXPECT_GE(H5Aread(attribute, type, static_cast<void*>(&words)), 0) << name;
  const std::string text = words != nullptr ? words : "";
  H5free_memory(words);
  H5Tclose(type);
  H5Aclose(attribute);
  H5Fclose(open);
  return text;
}

/// Adds a dataset of type `type` to a file, which is made if it does not exist.
inline void add_numbers(const std::filesystem::path& path, const std::string& name, const std::vector<hsize_t>& extents,
                        const std::vector<double>& values, hid_t type = H5T_IEEE_F64LE) {
  const hid_t file = std::filesystem::exists(path) ? H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT)
                                                   : H5Fcreate(path.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t space = H5Screate_simple(int(extents.size()), extents.data(), nullptr);
  const hid_t data = H5Dcreate2(file, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  EXPECT_GE(H5Dwrite(data, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0) << name;
  H5Dclose(data);
  H5Sclose(space);
  H5Fclose(file);
}

/// Overwrites all numbers of a dataset.
inline void rewrite(const std::filesystem::path& path, const std::string& dataset, const std::vector<double>& values) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  const hid_t data = H5Dopen2(file, dataset.c_str(), H5P_DEFAULT);
  ASSERT_GE(H5Dwrite(data, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0) << dataset;
  H5Dclose(data);
  H5Fclose(file);
}

/// Adds `amount` to number `index` of a dataset.
inline void spoil(const std::filesystem::path& path, const std::string& dataset, std::size_t index, double amount) {
  std::vector<double> values = numbers(path, dataset);
  values.at(index) += amount;
  rewrite(path, dataset, values);
}

/// Replaces a dataset by a scalar, which may be a text.
inline void replace_by_scalar(const std::filesystem::path& path, const std::string& dataset, hid_t type,
                              const void* value) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  ASSERT_GE(H5Ldelete(file, dataset.c_str(), H5P_DEFAULT), 0) << dataset;
  const hid_t space = H5Screate(H5S_SCALAR);
  const hid_t data = H5Dcreate2(file, dataset.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  ASSERT_GE(H5Dwrite(data, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, value), 0) << dataset;
  H5Dclose(data);
  H5Sclose(space);
  H5Fclose(file);
}
inline void replace_by_scalar(const std::filesystem::path& path, const std::string& dataset, double value) {
  replace_by_scalar(path, dataset, H5T_NATIVE_DOUBLE, &value);
}
inline void replace_by_text(const std::filesystem::path& path, const std::string& dataset, const char* text) {
  const hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, H5T_VARIABLE);
  H5Tset_cset(type, H5T_CSET_UTF8);
  replace_by_scalar(path, dataset, type, &text);
  H5Tclose(type);
}

}  // namespace annulus::test
