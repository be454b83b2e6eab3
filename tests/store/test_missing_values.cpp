// netCDF attributes of inputs: packed numbers, and fill values that stand for missing numbers, are refused.
#include <gtest/gtest.h>

#include <cmath>

#include "annulus/core/storage.hpp"
#include "annulus/store/file_rows.hpp"
#include "annulus/store/hdf5/attributes.hpp"
#include "annulus/store/hdf5/hdf5_support.hpp"
#include "annulus/store/input_file.hpp"
#include "store/tensor_inputs.hpp"

namespace annulus::store {
namespace {

using core::DType;
using test::add_attribute;

const std::vector<std::string> tensors{"/q", "/k", "/v", "/dout", "/dlse"};
const core::Shape shape{2, 7, 3, 3, 4};

/// A file with all five tensors; each has the numbers first, first + 1, ...; `first` is 1 unless make() is given
/// another number.
class MissingValuesTest : public test::InputFileTest {
 protected:
  MissingValuesTest() { settings_.dlse = "/dlse"; }

  void make(hid_t type, bool is_chunked = false, double first = 1) {
    test::on_root(comm, [&] {
      const hid_t lse = H5Tget_size(type) == 8 ? H5T_IEEE_F64LE : H5T_IEEE_F32LE;
      std::filesystem::remove(path);
      for (const std::string& name : tensors) {
        std::vector<hsize_t> extents{2, 7, 3};
        if (name != "/dlse") extents.push_back(4);
        std::vector<double> numbers(2 * 7 * 3 * (name == "/dlse" ? 1 : 4));
        std::iota(numbers.begin(), numbers.end(), first);
        test::add_dataset(path, name, name == "/dlse" ? lse : type, extents, numbers.data(), H5T_NATIVE_DOUBLE,
                          is_chunked ? std::vector<hsize_t>{1, 3, 2, 4} : std::vector<hsize_t>{});
      }
    });
  }
  void mark(const std::string& dataset, const std::string& attribute, const std::vector<double>& values,
            hid_t type = H5T_NATIVE_DOUBLE) const {
    test::on_root(comm, [&] { add_attribute(path, dataset, attribute, type, values); });
  }
  /// The error of reading a whole dataset; "" if there is none.
  std::string error_of_reading(const std::string& dataset) const {
    const InputFile file = tensor_file(settings_, comm, true);
    std::vector<double> memory(4096);
    std::string said;
    try {
      file.read({{dataset, memory.data()}}, {test::share(shape.sequence, comm)}, comm);
    } catch (const comm::AgreedError& error) {
      said = error.what();
    }
    for (const std::string& other : comm.gather_all(said)) EXPECT_EQ(other, said);
    return said;
  }
  /// The error of reading rows `first` and `first` + 1 of batch entry 1 by FileRows; "" if there is none.
  std::string error_of_rows(core::StoredTensor tensor, const std::string& dataset, Index first) const {
    const InputFile file = tensor_file(settings_, comm, true);
    FileRows rows;
    rows.put(tensor, origin_of(file.inspected(), dataset));
    std::vector<double> memory(64);
    try {
      rows.wait(rows.start(tensor, {{.batch = 1,
                                     .first = first,
                                     .count = 2,
                                     .heads = {0, 3},
                                     .memory = memory.data(),
                                     .pitch = 3 * 4 * 8,
                                     .head_pitch = 4 * 8}}));
    } catch (const core::Error& error) {
      return error.what();
    }
    return "";
  }

  runfile::InputSettings settings_ = test::settings_for(path);
};

const char* const words = ", which stands for a missing number according to its attribute ";

TEST_F(MissingValuesTest, PackedNumbersAreRefused) {
  for (const std::string name : {"/q", "/k", "/v", "/dout", "/dlse", "documents"}) {
    for (const std::string attribute : {"scale_factor", "add_offset"}) {
      make(H5T_IEEE_F32LE);
      const std::vector<std::int64_t> offsets{0, 7};
      test::on_root(
          comm, [&] { test::add_dataset(path, "documents", H5T_STD_I64LE, {2}, offsets.data(), H5T_NATIVE_INT64); });
      settings_.documents = "documents";
      mark(name, attribute, {0.5});
      const std::string says =
          fmt::format("dataset {} has the attribute {} (0.5): its numbers are packed", name, attribute);
      expect_error(path, says, [&] { tensor_file(settings_, comm, true); });
    }
  }
}

TEST_F(MissingValuesTest, WhatIsNotReadMayBePacked) {
  make(H5T_IEEE_F32LE);
  mark("/q", "scale_factor", {1});  // factor 1 and offset 0 change no number
  mark("/k", "add_offset", {0});
  mark("/dout", "scale_factor", {0.5});
  mark("/dlse", "add_offset", {1});
  EXPECT_EQ(tensor_file(settings_, comm, false).shape(), shape);
}

TEST_F(MissingValuesTest, AFillValueThatOccursIsRefusedWithItsPlace) {
  for (const char* attribute : {"_FillValue", "missing_value"}) {
    for (const std::string& name : tensors) {
      const bool flat = name == "/dlse";
      make(H5T_IEEE_F32LE);
      mark(name, attribute, {-1, flat ? 30.0 : 120.0, 1e36});  // [1, 2, 2], or [1, 2, 2, 3]
      const std::string at = flat ? "30 at [1, 2, 2]" : "120 at [1, 2, 2, 3]";
      EXPECT_EQ(error_of_reading(name), fmt::format("{}: dataset {} holds {}{}{}; expected a number everywhere", path,
                                                    name, at, words, attribute));
    }
  }
}

TEST_F(MissingValuesTest, AFillValueThatDoesNotOccurIsFine) {
  make(H5T_IEEE_F32LE);
  for (const std::string& name : tensors) mark(name, "_FillValue", {-9999});
  for (const std::string& name : tensors) EXPECT_EQ(error_of_reading(name), "");
  EXPECT_EQ(error_of_rows(core::StoredTensor::q, "/q", 1), "");
  const std::vector<std::int64_t> offsets{0, 7};  // no integer is one of these values
  test::on_root(comm,
                [&] { test::add_dataset(path, "documents", H5T_STD_I64LE, {2}, offsets.data(), H5T_NATIVE_INT64); });
  settings_.documents = "documents";
  mark("documents", "_FillValue", {std::nan(""), 1e19, 7.5});
  EXPECT_EQ(error_of_reading("/q"), "");
}

/// In memory, rows that do not exist are zeros, whatever the file has there. These zeros are no missing numbers.
TEST_F(MissingValuesTest, RowsThatDoNotExistAreNotMissingZeros) {
  const std::vector<std::int64_t> offsets{0, 5};  // rows 5 and 6 belong to no document
  settings_.documents = "documents";
  for (const double first : {1.0, -3.0}) {
    for (const bool is_chunked : {false, true}) {
      make(H5T_IEEE_F32LE, is_chunked, first);
      test::on_root(
          comm, [&] { test::add_dataset(path, "documents", H5T_STD_I64LE, {2}, offsets.data(), H5T_NATIVE_INT64); });
      mark("/q", "_FillValue", {0});
      const std::string says = error_of_reading("/q");
      EXPECT_EQ(says.empty(), first > 0) << says;
      const bool is_named = says.find("dataset /q holds 0 at [0, 0, 0, 3], which stands for") != std::string::npos;
      EXPECT_EQ(is_named, first < 0) << says;
    }
  }
}

TEST_F(MissingValuesTest, EveryTypeOfTensorsAndAttributes) {
  for (const DType type : core::all_dtypes) {
    for (const hid_t stored : {H5T_IEEE_F64LE, H5T_IEEE_F32BE, H5T_STD_I16LE}) {
      make(file_type(type));
      mark("/k", "_FillValue", {25}, stored);
      const std::string says = error_of_reading("/k");
      EXPECT_NE(says.find("dataset /k holds 25 at [0, 2, 0, 0]"), std::string::npos) << core::name_of(type) << says;
    }
  }
  // float16 has no number 100.001, so the fill value means the nearest number that float16 has, 100.
  make(file_type(DType::float16));
  mark("/v", "_FillValue", {100.001});
  EXPECT_NE(error_of_reading("/v").find("dataset /v holds 100 at [1, 1, 0, 3]"), std::string::npos);
}

TEST_F(MissingValuesTest, OfTheOtherOrderOfAxes) {
  make(H5T_IEEE_F32LE);
  settings_.axes = core::AxisOrder::bhsd;  // (2, 7 heads, 3 rows, 4)
  mark("/v", "_FillValue", {84 + 12 + 4 + 1});
  const InputFile file = tensor_file(settings_, comm, false);
  std::vector<double> memory(4096);
  expect_error(path, "dataset /v holds 101 at [1, 1, 1, 0], which", [&] {
    file.read({{"/v", memory.data()}}, {test::share(3, comm)}, comm);
  });
}

TEST_F(MissingValuesTest, RowsThatAreReadAhead) {
  for (const bool is_chunked : {false, true}) {
    make(H5T_IEEE_F32LE, is_chunked);
    mark("/q", "missing_value", {84 + 12 + 4 + 2});  // [1, 1, 1, 1]
    const std::string says = error_of_rows(core::StoredTensor::q, "/q", 0);
    EXPECT_NE(says.find("dataset /q holds 102 at [1, 1, 1, 1], which"), std::string::npos) << says;
    EXPECT_EQ(error_of_rows(core::StoredTensor::q, "/q", 2), "") << "other rows";
  }
}

TEST_F(MissingValuesTest, AnAttributeThatIsNoNumberIsRefused) {
  make(H5T_IEEE_F32LE);
  test::on_root(comm, [&] {
    const FileId file = open_alone(path, true);
    add_text(open_dataset(file, path, "/q"), "_FillValue", "none");
  });
  expect_error(path, "dataset /q has an attribute _FillValue that holds text, expected a number",
               [&] { tensor_file(settings_, comm, true); });
}

TEST_F(MissingValuesTest, OfALayer) {
  const std::map<std::string, std::vector<hsize_t>> datasets{
      {"/x", {2, 5, 6}}, {"/dy", {2, 5, 6}}, {"/target", {2, 5, 6}}, {"/wq", {6, 6}}, {"/wk", {6, 6}},
      {"/wv", {6, 6}},   {"/wo", {6, 6}},    {"/bq", {6}},           {"/bo", {6}}};
  runfile::Settings settings;
  settings.input.file = path;
  settings.layer.emplace();
  settings.layer->heads = settings.layer->kv_heads = 2;
  settings.layer->bq = "/bq";
  settings.layer->bo = "/bo";
  settings.train.emplace();
  for (const auto& dataset : datasets) {
    const auto& marked = dataset.first;
    const std::size_t axes = dataset.second.size();
    SCOPED_TRACE(marked);
    test::on_root(comm, [&] {
      std::filesystem::remove(path);
      for (const auto& [name, extents] : datasets) {
        std::vector<double> numbers(60, 1.0);
        numbers[5] = 7;
        test::add_dataset(path, name, H5T_IEEE_F32LE, extents, numbers.data(), H5T_NATIVE_DOUBLE);
      }
    });
    mark(marked, "_FillValue", {7});
    const InputFile file = layer_file(settings, {true, true}, comm);
    std::vector<float> memory(60);
    const auto columns = Index(axes == 1 ? 1 : 6);
    expect_error(path, fmt::format("dataset {} holds 7 at [", marked), [&] {
      if (axes == 3) return file.read({{marked, memory.data()}}, {test::share(5, comm)}, comm);
      const Rectangle all{{0, 6}, {0, columns}};
      read_parts(file.inspected(), {{marked, all, all, memory.data()}}, comm);
    });
    mark(marked, "scale_factor", {2});
    expect_error(path, fmt::format("dataset {} has the attribute scale_factor (2)", marked), [&] {
      layer_file(settings, {true, true}, comm);
    });
  }
}

}  // namespace
}  // namespace annulus::store
