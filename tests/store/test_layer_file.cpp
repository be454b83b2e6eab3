// Inputs of layers: which are accepted, what errors say of bad ones, and how parts of matrices are read and written.
#include <gtest/gtest.h>

#include <limits>

#include "annulus/store/input_file.hpp"
#include "annulus/store/output_file.hpp"
#include "store/tensor_inputs.hpp"

namespace annulus::store {
namespace {

using core::DType;
using core::Interval;
using test::add_dataset;
using test::common_error;
using test::counting;

using LayerFileTest = test::InputFileTest;
using PartsTest = test::InputFileTest;

/// Extents of the datasets of a layer: 2 batch entries of 5 rows, width 6, 4 heads (2 K/V heads) of size 3.
struct Extents {
  std::map<std::string, std::vector<hsize_t>> of{
      {"x", {2, 5, 6}}, {"dy", {2, 5, 6}}, {"target", {2, 5, 6}}, {"wq", {6, 12}}, {"wk", {6, 6}}, {"wv", {6, 6}},
      {"wo", {12, 6}},  {"bq", {12}},      {"bk", {6}},           {"bv", {6}},     {"bo", {6}}};
};

void make_layer(const comm::Communicator& comm, const std::string& path, const std::string& changed = "",
                const std::vector<hsize_t>& extents = {}, hid_t type = H5T_IEEE_F32LE) {
  test::on_root(comm, [&] {
    for (const auto& [name, usual] : Extents().of) {
      const bool here = name == changed;
      add_dataset(path, name, here ? type : H5T_IEEE_F32LE, here && !extents.empty() ? extents : usual);
    }
  });
}

runfile::Settings settings_for(const std::string& path) {
  runfile::Settings settings;
  settings.input.file = path;
  settings.layer.emplace();
  settings.layer->heads = 4;
  settings.layer->kv_heads = 2;
  settings.layer->bq = "bq";
  settings.layer->bv = "/bv";
  settings.train.emplace();
  return settings;
}

TEST_F(LayerFileTest, DescribesTheLayer) {
  make_layer(comm, path);
  const InputFile file = layer_file(settings_for(path), {true, true}, comm);
  EXPECT_EQ(file.shape(), (core::Shape{2, 5, 4, 2, 3}));
  EXPECT_EQ(file.width(), 6);
  EXPECT_EQ(file.type(), DType::float32);
  EXPECT_EQ(file.documents(), (pattern::Documents{0, 5}));
}

TEST_F(LayerFileTest, ReadsRows) {
  const auto x = counting<float>(2 * 5 * 6);
  make_layer(comm, path);
  test::on_root(comm, [&] { add_dataset(path, "mine", H5T_IEEE_F32LE, {2, 5, 6}, x.data()); });
  runfile::Settings settings = settings_for(path);
  settings.layer->x = "/mine";
  const Interval rows = test::share(5, comm);
  std::vector<float> mine(std::size_t(2 * rows.size() * 6));
  layer_file(settings, {}, comm).read({{"/mine", mine.data()}}, {rows}, comm);
  EXPECT_EQ(mine, test::rows_of(x, 2, 6, {rows}));
}

TEST_F(LayerFileTest, NamesWhatIsWrong) {
  struct Case {
    const char* dataset;
    std::vector<hsize_t> extents;
    hid_t type;
    std::string says;
  };
  const hid_t f32 = H5T_IEEE_F32LE;
  int number = 0;
  for (const Case& c : std::vector<Case>{
           {"x", {2, 5}, f32, "dataset /x has 2 axes (2, 5), expected 3: (batch, sequence, width)"},
           {"x", {2, 5, 7}, f32, "dataset /wq has shape (6, 12), expected (7, 12) to fit x (2, 5, 7), 4 heads"},
           {"wq", {6, 13}, f32, "dataset /wq has 13 columns, expected a multiple of layer.heads, 4"},
           {"wq", {6, 4 * 577}, f32, "dataset /wq has 2308 columns for 4 heads: head_dim is 577"},
           {"wk", {6, 12}, f32, "dataset /wk has shape (6, 12), expected (6, 6) to fit x"},
           {"wv", {6, 6}, H5T_IEEE_F64LE, "dataset /wv is float64, expected float32 as "},
           {"wo", {6, 12}, f32, "dataset /wo has shape (6, 12), expected (12, 6)"},
           {"bq", {12, 1}, f32, "dataset bq has 2 axes (12, 1), expected 1: (heads * head_dim)"},
           {"bv", {12}, f32, "dataset /bv has shape (12), expected (6)"},
           {"dy", {2, 4, 6}, f32, "dataset /dy has shape (2, 4, 6), expected (2, 5, 6) to fit x (2, 5, 6)"},
           {"target", {2, 5, 6}, H5T_STD_I32LE, "dataset /target is 32-bit integer, expected float64"}}) {
    const std::string file = folder / fmt::format("{}.h5", number++);
    make_layer(comm, file, c.dataset, c.extents, c.type);
    expect_error(file, c.says, [&] { layer_file(settings_for(file), {true, true}, comm); });
  }
}

/// A rank's part of a matrix of `rows` x `columns` that is cut by rows or by columns.
Rectangle part_of(bool by_rows, Index rows, Index columns, int ranks, int rank) {
  if (by_rows) return {core::even_part(rows, ranks, rank), {0, columns}};
  return {{0, rows}, core::even_part(columns, ranks, rank)};
}
bool is_in(const Rectangle& part, Index row, Index column) {
  return part.rows.begin <= row && row < part.rows.end && part.columns.begin <= column && column < part.columns.end;
}

TEST_F(PartsTest, GoOutAndComeBack) {
  const std::string path = folder / "out.h5";
  const Index rows = 7, columns = 5;
  for (const bool by_rows : {true, false}) {
    const Rectangle kept = part_of(by_rows, rows, columns, comm.size(), comm.rank());
    std::vector<float> mine;  // each number is its position
    for (Index r = kept.rows.begin; r < kept.rows.end; ++r) {
      for (Index c = kept.columns.begin; c < kept.columns.end; ++c) mine.push_back(float(r * columns + c));
    }
    OutputFile file(output_plan({path, true}, {{"w", DType::float32, {rows, columns}, "in out"},
                                               {"b", DType::float64, {rows}, "in"}}),
                    comm);
    std::vector<double> bias = counting<double>(std::size_t(rows), 100);
    const Rectangle all{{0, rows}, {0, 1}};
    const auto rank_of = [&](const std::string& dataset) -> RankOf {
      return [&, dataset](const OneNumber& at) {
        int rank = 0;
        while (dataset == "w" && !is_in(part_of(by_rows, rows, columns, comm.size(), rank), at.row, at.head)) ++rank;
        return rank;
      };
    };
    file.write_parts({{"w", kept, kept, mine.data()}, {"b", comm.is_root() ? all : Rectangle{}, all, bias.data()}},
                     rank_of);
    file.publish({"", {}, {}});

    // Every rank reads all numbers, by byte offsets and by HDF5. Then it reads only its part, into a whole matrix.
    const Rectangle whole{{0, rows}, {0, columns}};
    const auto expected = counting<float>(std::size_t(rows * columns));
    InspectedFile seen = test::inspected_file(comm, path, {"w", "b"});
    for (const Index offset : {DatasetInfo::not_known, DatasetInfo::by_hdf5}) {
      seen.datasets["w"].offset = seen.datasets["b"].offset = offset;
      std::vector<float> read(expected.size());
      read_part(seen, {"w", whole, whole, read.data()});
      EXPECT_EQ(read, expected);
      std::vector<double> back(static_cast<std::size_t>(rows));
      read_parts(seen, {{"b", all, all, back.data()}}, comm);
      EXPECT_EQ(back, bias);
    }
    std::vector<float> inside(expected.size(), -1);
    read_part(seen, {"w", kept, whole, inside.data()});
    for (Index r = 0; r < rows; ++r) {
      for (Index c = 0; c < columns; ++c) {
        const float own = is_in(kept, r, c) ? float(r * columns + c) : -1;
        EXPECT_EQ(inside[std::size_t(r * columns + c)], own) << r << ", " << c;
      }
    }
    comm.barrier();  // all ranks have read the file before another file gets its name
  }
}

TEST_F(PartsTest, OutsideTheDatasetAreEveryonesError) {
  make_layer(comm, path);
  std::vector<float> host(100);
  const bool last = comm.rank() == comm.size() - 1;
  const Rectangle part{{0, 6}, {0, last ? 13 : 12}};
  const std::string message = common_error(comm, [&] {
    read_parts(test::inspected_file(comm, path, {"wq"}), {{"wq", part, part, host.data()}}, comm);
  });
  EXPECT_NE(message.find("dataset wq: batch entry 0, rows 0 to 5, heads [0, 13) of (1, 6, 12, 1)"), std::string::npos)
      << message;
}

TEST_F(PartsTest, NanIsNamedByItsPlace) {
  std::vector<float> w(7 * 5, 1.0f);
  w[4 * 5 + 2] = std::numeric_limits<float>::quiet_NaN();
  test::on_root(comm, [&] { add_dataset(path, "w", H5T_IEEE_F32LE, {7, 5}, w.data()); });
  for (const bool by_rows : {true, false}) {
    const Rectangle kept = part_of(by_rows, 7, 5, comm.size(), comm.rank());
    std::vector<float> host(std::size_t(kept.count()));
    const std::string message = common_error(comm, [&] {
      read_parts(test::inspected_file(comm, path, {"w"}), {{"w", kept, kept, host.data()}}, comm);
    });
    EXPECT_NE(message.find(path + ": dataset w holds nan at [4, 2], expected finite"), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace annulus::store
