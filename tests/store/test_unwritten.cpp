// Datasets that a program has made, but has not written, or has written in part. If HDF5 reads the missing parts as 0,
// they are accepted with a warning, and no rank waits for another one. Datasets of which nothing was written, or whose
// missing parts HDF5 reads as other numbers, are refused.
#include <gtest/gtest.h>

#include "store/tensor_inputs.hpp"

namespace annulus::store {
namespace {

using core::Interval;
using test::add_dataset;
using test::settings_for;

constexpr hsize_t rows = 12, heads = 2, dim = 4;

/// Adds a dataset of the extents `all` with a chunk for each row. Rows are axis 1, or axis 0 if there is only one axis.
/// Rows [0, written) get numbers from 1 on. `level` is the level of gzip; 0: not compressed.
void add_chunked(const std::string& path, const char* name, hsize_t written, unsigned level, bool is_chunked = true,
                 double fill = 0, H5D_fill_time_t when = H5D_FILL_TIME_IFSET,
                 const std::vector<hsize_t>& all = {1, rows, heads, dim}) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  const int axes = int(all.size());
  std::vector<hsize_t> chunk(all), count(all), start(all.size());
  chunk[all.size() == 1 ? 0 : 1] = 1;
  count[all.size() == 1 ? 0 : 1] = written;
  const hid_t space = H5Screate_simple(axes, all.data(), nullptr), creation = H5Pcreate(H5P_DATASET_CREATE);
  if (is_chunked) H5Pset_chunk(creation, axes, chunk.data());
  if (level > 0) H5Pset_deflate(creation, level);
  if (fill != 0) H5Pset_fill_value(creation, H5T_NATIVE_DOUBLE, &fill);
  H5Pset_fill_time(creation, when);
  const hid_t data = H5Dcreate2(file, name, H5T_IEEE_F32LE, space, H5P_DEFAULT, creation, H5P_DEFAULT);
  if (written > 0) {
    const auto numbers = test::counting<float>(std::size_t(written * heads * dim), 1);
    const hid_t memory = H5Screate_simple(axes, count.data(), nullptr);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr);
    H5Dwrite(data, H5T_NATIVE_FLOAT, memory, space, H5P_DEFAULT, numbers.data());
    H5Sclose(memory);
  }
  H5Dclose(data);
  H5Pclose(creation);
  H5Sclose(space);
  H5Fclose(file);
}

/// Rows [begin, begin + rows) of a virtual dataset, and their source, a dataset of the same file.
struct Part {
  hsize_t begin, rows;
  const char* source;
};
/// Adds a virtual dataset. A part with H5S_UNLIMITED rows grows with its source.
void add_virtual(const std::string& path, const char* name, const std::vector<Part>& parts, double fill = 0) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), creation = H5Pcreate(H5P_DATASET_CREATE);
  const hsize_t extents[] = {1, rows, heads, dim}, most[] = {1, H5S_UNLIMITED, heads, dim}, zeros[] = {0, 0, 0, 0};
  const hsize_t ones[] = {1, 1, 1, 1};
  const hid_t space = H5Screate_simple(4, extents, most);
  if (fill != 0) H5Pset_fill_value(creation, H5T_NATIVE_DOUBLE, &fill);
  for (const Part& part : parts) {
    const hsize_t start[] = {0, part.begin, 0, 0}, block[] = {1, part.rows, heads, dim};
    const hid_t source = H5Screate_simple(4, extents, most);
    H5Sselect_hyperslab(source, H5S_SELECT_SET, zeros, nullptr, ones, block);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, start, nullptr, ones, block);
    EXPECT_GE(H5Pset_virtual(creation, space, ".", part.source, source), 0) << name;
    H5Sclose(source);
  }
  H5Dclose(H5Dcreate2(file, name, H5T_IEEE_F32LE, space, H5P_DEFAULT, creation, H5P_DEFAULT));
  H5Sclose(space);
  H5Pclose(creation);
  H5Fclose(file);
}

class Unwritten : public test::InputFileTest {
 protected:
  Unwritten() {
    test::on_root(comm, [&] {
      const auto all = test::counting<float>(rows * heads * dim);
      for (const char* name : {"q", "k"}) add_dataset(path, name, H5T_IEEE_F32LE, {1, rows, heads, dim}, all.data());
      for (const unsigned level : {0U, 4U}) {
        for (const hsize_t written : {hsize_t(0), hsize_t(1), hsize_t(5), rows}) {
          add_chunked(path, fmt::format("v{}_{}", written, level).c_str(), written, level);
        }
      }
      const std::int64_t length = 5;
      add_dataset(path, "lengths", H5T_NATIVE_INT64, {1}, &length, H5T_NATIVE_INT64);
      add_chunked(path, "never", 0, 0, /*is_chunked=*/false);
      add_chunked(path, "filled", 5, 0, true, -999);
      add_chunked(path, "sink", 1, 0, true, -999, H5D_FILL_TIME_IFSET, {heads});
      add_chunked(path, "garbage", 5, 0, true, 0, H5D_FILL_TIME_NEVER);
      add_chunked(path, "netcdf", 5, 0, false, 9.9692099683868690e+36);
      add_virtual(path, "gap", {{0, 5, "v12_0"}, {3, 5, "v12_0"}});
      add_virtual(path, "gap7", {{1, 11, "v12_0"}}, 7);
      add_virtual(path, "whole", {{6, 6, "v12_0"}, {0, 6, "v12_4"}}, 7);
      add_virtual(path, "growing", {{0, H5S_UNLIMITED, "k"}}, 7);
      add_virtual(path, "part", {{0, rows, "v5_0"}}, 7);
      add_virtual(path, "part_filled", {{0, rows, "filled"}});
    });
  }

  runfile::InputSettings with_v(const std::string& name) const {
    runfile::InputSettings settings = settings_for(path);
    settings.v = name;
    return settings;
  }
  /// Looks at the input twice. Expects that rank 0 prints one warning, "...: dataset SAYS: HDF5 reads them as 0", or
  /// none if `says` is empty.
  void expect_warning(const std::string& name, const std::string& says) const {
    testing::internal::CaptureStderr();
    for (int time = 0; time < 2; ++time) tensor_file(with_v(name), comm);
    const bool expected = comm.is_root() && !says.empty();
    EXPECT_EQ(testing::internal::GetCapturedStderr(),
              expected ? fmt::format("annulus: warning: {}: dataset {}: HDF5 reads them as 0\n", path, says) : "")
        << name;
  }
};

TEST_F(Unwritten, OneWarningNamesWhatIsReadAsZero) {
  expect_warning("v5_4", "v5_4 lacks 7 of its 12 chunks (never written)");
  expect_warning("gap", "gap has no source for 32 of its 96 numbers");
  expect_warning(
      "part", fmt::format("part is made of dataset v5_0 of {}, which lacks 7 of its 12 chunks (never written)", path));
  for (const char* name : {"v12_0", "v12_4", "whole", "growing"}) expect_warning(name, "");
}

TEST_F(Unwritten, WhatIsReadAsAnotherNumberIsRefused) {
  const auto refused = [&](const char* name, const std::string& says) {
    expect_error(path, fmt::format("dataset {}; expected a dataset that is written completely", says),
                 [&] { tensor_file(with_v(name), comm); });
  };
  const std::string lacks = "lacks 7 of its 12 chunks (never written): HDF5 reads them as ";
  refused("filled", "filled " + lacks + "its fill value, -999");
  refused("garbage", "garbage " + lacks + "whatever is in memory");
  refused("gap7", "gap7 has no source for 8 of its 96 numbers: HDF5 reads them as its fill value, 7");
  runfile::InputSettings padded = with_v("filled");  // chunks of rows that do not exist may be missing
  padded.lengths = "lengths";
  EXPECT_NO_THROW(tensor_file(padded, comm));
  padded.sink = "sink";  // has no rows, so no chunk may be missing
  expect_error(path, "dataset sink lacks 1 of its 2 chunks (never written): HDF5 reads them as its fill value, -999;",
               [&] { tensor_file(padded, comm); });
  EXPECT_NO_THROW(tensor_file(with_v("part_filled"), comm)) << "a dataset may not map what its source lacks";
  const InputFile file = tensor_file(with_v("netcdf"), comm);
  std::vector<float> numbers(rows * heads * dim);
  expect_error(
      path, "dataset netcdf holds 9.969209968386869e+36 at [0, 5, 0, 0], which netCDF returns for a number that", [&] {
        file.read({{"netcdf", numbers.data()}}, {{0, Index(rows)}}, comm);
      });
}

TEST_F(Unwritten, ChunksThatAreMissingAreTheFillValue) {
  for (const unsigned level : {0U, 4U}) {
    for (const hsize_t written : {hsize_t(1), hsize_t(5), rows}) {
      const runfile::InputSettings settings = with_v(fmt::format("v{}_{}", written, level));
      SCOPED_TRACE(settings.v);
      const InputFile file = tensor_file(settings, comm);
      // Rank 1 reads rows that may all be missing, rank 2 reads no rows.
      const Interval mine = comm.rank() == 1 ? Interval{6, 12} : comm.rank() == 2 ? Interval{} : Interval{0, 6};
      std::vector<float> found(std::size_t(mine.size()) * heads * dim, -1);
      file.read({{settings.v, found.data()}}, {mine}, comm);
      for (std::size_t i = 0; i < found.size(); ++i) {
        const std::size_t at = std::size_t(mine.begin) * heads * dim + i;
        ASSERT_EQ(found[i], at < written * heads * dim ? float(at + 1) : 0.0f) << at;
      }
    }
  }
}

TEST_F(Unwritten, ADatasetOfWhichNothingWasWrittenIsRefused) {
  for (const std::string name : {"v0_0", "v0_4", "never"}) {
    expect_error(path, "dataset " + name + " was never written", [&] { tensor_file(with_v(name), comm); });
  }
}

}  // namespace
}  // namespace annulus::store
