// Inputs that are stored with HDF5 filters whose plugins are not installed.
#include <gtest/gtest.h>

#include "annulus/store/hdf5/dataset_storage.hpp"
#include "annulus/store/row_reading.hpp"
#include "store/tensor_inputs.hpp"

namespace annulus::store {
namespace {

constexpr H5Z_filter_t ours = 305;  // HDF5 leaves the numbers 256 to 511 to tests

/// turn_bits inverts all bits, but fails for the first `stored_as_they_are` chunks, which HDF5 then stores unfiltered.
int stored_as_they_are = 0;
std::size_t turn_bits(unsigned flags, std::size_t, const unsigned*, std::size_t bytes, std::size_t*, void** buffer) {
  if ((flags & H5Z_FLAG_REVERSE) == 0 && stored_as_they_are-- > 0) return 0;
  for (std::size_t i = 0; i < bytes; ++i) static_cast<unsigned char*>(*buffer)[i] ^= 0xff;
  return bytes;
}

/// While a Filter exists, HDF5 knows the filter.
class Filter {
 public:
  Filter() {
    const H5Z_class2_t filter{H5Z_CLASS_T_VERS, ours, 1, 1, "turned bits", nullptr, nullptr, turn_bits};
    EXPECT_GE(H5Zregister(&filter), 0);
  }
  ~Filter() { EXPECT_GE(H5Zunregister(ours), 0); }
};

/// Adds a dataset of chunks of one row each.
template <class Number>
void add_filtered(const std::string& path, const std::string& name, hid_t type, const std::vector<hsize_t>& extents,
                  const std::vector<Number>& numbers) {
  std::vector<hsize_t> chunk = extents;
  chunk[extents.size() > 1 ? 1 : 0] = 1;
  const PropertyId creation(H5Pcreate(H5P_DATASET_CREATE));
  H5Pset_chunk(creation, int(chunk.size()), chunk.data());
  H5Pset_filter(creation, ours, H5Z_FLAG_OPTIONAL, 0, nullptr);
  FileId file = open_alone(path, true);
  {
    const SpaceId space(H5Screate_simple(int(extents.size()), extents.data(), nullptr));
    const DatasetId dataset(H5Dcreate2(file, name.c_str(), type, space, H5P_DEFAULT, creation, H5P_DEFAULT));
    EXPECT_GE(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers.data()), 0);
  }
  EXPECT_GE(file.close(), 0);
}

class Filters : public test::InputFileTest {
 protected:
  /// Makes an input whose q is filtered, except for its first `plain` rows.
  void make_filtered_input(int plain) const {
    test::make_input(comm, path, H5T_IEEE_F32LE, {1, 6, 2, 2, 4});
    test::on_root(comm, [&] {
      stored_as_they_are = plain;
      {
        FileId file = open_alone(path, true);
        H5Ldelete(file, "q", H5P_DEFAULT);
      }
      const Filter filter;
      add_filtered(path, "q", H5T_IEEE_F32LE, {1, 6, 2, 4}, q);
    });
  }
  std::vector<float> read() const {
    const InputFile file = tensor_file(test::settings_for(path), comm);
    const core::Interval mine = test::share(6, comm);
    std::vector<float> found(std::size_t(mine.size() * 8));
    file.read({{"/q", found.data()}}, {mine}, comm);
    return found;
  }

  const std::vector<float> q = test::counting<float>(48);
  const std::string advice =
      "it is stored with HDF5 filter 305 (turned bits), which was not found: name the folder of its plugin in "
      "HDF5_PLUGIN_PATH (searched now: ";
};

TEST_F(Filters, WithTheFilterItIsReadAsEver) {
  make_filtered_input(0);
  const Filter filter;
  EXPECT_EQ(read(), test::rows_of(q, 1, 8, {test::share(6, comm)}));
}

TEST_F(Filters, PluginsAreNamed) {
  make_filtered_input(0);
  EXPECT_EQ(filter_plugins_of(test::inspected_file(comm, path, {"q", "k"})),
            std::vector<std::string>{"305 (turned bits)"});
  EXPECT_EQ(filter_plugins_of(test::inspected_file(comm, path, {"k"})), std::vector<std::string>{});
}

TEST_F(Filters, AMissingOneIsNamedWhenTheInputIsLookedAt) {
  make_filtered_input(0);
  expect_error(path, "dataset /q cannot be read; " + advice, [&] { tensor_file(test::settings_for(path), comm); });
}

TEST_F(Filters, WhatCouldNotBeFilteredNeedsNone) {
  make_filtered_input(6);
  const InspectedFile seen = test::inspected_file(comm, path, {"q"});
  std::vector<float> found(q.size());
  read_rows(seen, {"q", found.data()}, {{0, 6}});
  EXPECT_EQ(found, q);
}

TEST_F(Filters, AMissingOneIsNamedWhenOnlyLaterRowsNeedIt) {
  make_filtered_input(5);
  const std::string message = test::common_error(comm, [&] { read(); });
  EXPECT_NE(message.find(path + ": dataset /q: reading failed"), std::string::npos) << message;
  EXPECT_NE(message.find("; " + advice), std::string::npos) << message;
}

TEST_F(Filters, DocumentsToo) {
  test::make_input(comm, path, H5T_IEEE_F32LE, {1, 6, 2, 2, 4});
  test::on_root(comm, [&] {
    const Filter filter;
    add_filtered(path, "documents", H5T_STD_I64LE, {2}, std::vector<std::int64_t>{0, 6});
  });
  runfile::InputSettings settings = test::settings_for(path);
  settings.documents = "documents";
  expect_error(path, "dataset documents cannot be read; " + advice, [&] { tensor_file(settings, comm); });
}

}  // namespace
}  // namespace annulus::store
