// Datasets that a program has made, but has not written, or only a part of them. Missing parts are read as HDF5 reads
// them, and no rank waits for another one. A dataset of which nothing was written is refused.
#include <gtest/gtest.h>

#include "store/tensor_inputs.hpp"

namespace annulus::store {
namespace {

using core::Interval;
using test::add_dataset;
using test::settings_for;

constexpr hsize_t rows = 12, heads = 2, dim = 4;

/// Adds a dataset with a chunk for each row. Rows [0, written) get numbers from 1 on. `level`: of gzip, 0 for none.
void add_chunked(const std::string& path, const char* name, hsize_t written, unsigned level, bool is_chunked = true) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  const hsize_t extents[] = {1, rows, heads, dim}, chunk[] = {1, 1, heads, dim}, start[] = {0, 0, 0, 0};
  const hsize_t count[] = {1, written, heads, dim};
  const hid_t space = H5Screate_simple(4, extents, nullptr), creation = H5Pcreate(H5P_DATASET_CREATE);
  if (is_chunked) H5Pset_chunk(creation, 4, chunk);
  if (level > 0) H5Pset_deflate(creation, level);
  const hid_t data = H5Dcreate2(file, name, H5T_IEEE_F32LE, space, H5P_DEFAULT, creation, H5P_DEFAULT);
  if (written > 0) {
    const auto numbers = test::counting<float>(std::size_t(written * heads * dim), 1);
    const hid_t memory = H5Screate_simple(4, count, nullptr);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, start, nullptr, count, nullptr);
    H5Dwrite(data, H5T_NATIVE_FLOAT, memory, space, H5P_DEFAULT, numbers.data());
    H5Sclose(memory);
  }
  H5Dclose(data);
  H5Pclose(creation);
  H5Sclose(space);
  H5Fclose(file);
}

class Unwritten : public test::InputFileTest {
 protected:
  Unwritten() {
    if (comm.is_root()) {
      const auto all = test::counting<float>(rows * heads * dim);
      for (const char* name : {"q", "k"}) add_dataset(path, name, H5T_IEEE_F32LE, {1, rows, heads, dim}, all.data());
      for (const unsigned level : {0U, 4U}) {
        for (const hsize_t written : {hsize_t(0), hsize_t(1), hsize_t(5), rows}) {
          add_chunked(path, fmt::format("v{}_{}", written, level).c_str(), written, level);
        }
      }
      add_chunked(path, "never", 0, 0, /*is_chunked=*/false);
    }
    comm.barrier();
  }
};

TEST_F(Unwritten, ChunksThatAreMissingAreTheFillValue) {
  for (const unsigned level : {0U, 4U}) {
    for (const hsize_t written : {hsize_t(1), hsize_t(5), rows}) {
      runfile::InputSettings settings = settings_for(path);
      settings.v = fmt::format("v{}_{}", written, level);
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
    runfile::InputSettings settings = settings_for(path);
    settings.v = name;
    expect_error(path, "dataset " + name + " was never written", [&] { tensor_file(settings, comm); });
  }
}

}  // namespace
}  // namespace annulus::store
