// Input files: which are accepted, and what errors say of bad ones.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>

#include "store/tensor_inputs.hpp"

namespace annulus::store {
namespace {

using core::DType;
using core::Interval;
using core::Shape;
using test::add_dataset;
using test::common_error;
using test::counting;
using test::make_input;
using test::rows_of;
using test::settings_for;
using test::share;
using test::SharedFolder;

using TensorFileTest = test::InputFileTest;

TEST_F(TensorFileTest, DescribesTheProblem) {
  const Shape shape{2, 7, 6, 3, 5};
  make_input(comm, path, H5T_IEEE_F64LE, shape, "/deep/group");
  runfile::InputSettings settings{path, {}, {}, "deep/group/q", "/deep/group/k", "/deep/group/v", "/dout", {},
                                  {},   {}, {}};
  const InputFile file = tensor_file(settings, comm);
  EXPECT_EQ(file.shape(), shape);
  EXPECT_EQ(file.type(), DType::float64);
  EXPECT_EQ(file.documents(), (pattern::Documents{0, 7}));
}

TEST_F(TensorFileTest, ReadsDocumentsOfAnyIntegerType) {
  make_input(comm, path, H5T_IEEE_F32LE, {1, 9, 1, 1, 2});
  const std::vector<std::int32_t> offsets{0, 4, 4, 9};  // a document may be empty
  test::on_root(comm, [&] { add_dataset(path, "documents", H5T_STD_I32LE, {4}, offsets.data()); });
  runfile::InputSettings settings = settings_for(path);
  settings.documents = "documents";
  EXPECT_EQ(tensor_file(settings, comm).documents(), (pattern::Documents{0, 4, 4, 9}));
}

TEST_F(TensorFileTest, ReadsSeveralIntervalsPerRank) {
  const Index batch = 2, sequence = 23, heads = 3, dim = 5;
  const auto all = counting<float>(std::size_t(batch * sequence * heads * dim));
  make_input(comm, path, H5T_IEEE_F32LE, {2, 23, 3, 5}, all.data());
  const InputFile file = tensor_file(settings_for(path), comm);
  // The ranks get two rows in turn; if there are several ranks, the last one gets none.
  std::vector<Interval> rows;
  const int takers = std::max(1, comm.size() - 1);
  for (Index begin = 0; begin < sequence; begin += 2) {
    if (begin / 2 % takers == comm.rank()) rows.push_back({begin, std::min(sequence, begin + 2)});
  }
  const std::vector<float> expected = rows_of(all, batch, heads * dim, rows);
  std::vector<float> q(expected.size()), v(expected.size());
  file.read({{"/q", q.data()}, {"/v", v.data()}}, rows, comm);
  EXPECT_EQ(q, expected);
  EXPECT_EQ(v, expected);
}

TEST_F(TensorFileTest, ReadsRowsOnOneRankAlone) {
  const auto all = counting<double>(2 * 9 * 2 * 3);
  make_input(comm, path, H5T_IEEE_F64LE, {2, 9, 2, 3}, all.data());
  const InputFile file = tensor_file(settings_for(path), comm);
  if (comm.rank() == comm.size() - 1) {  // no other rank takes part
    std::vector<double> k(2 * 4 * 2 * 3);
    read_rows(file.inspected(), {"/k", k.data()}, {{3, 7}});
    EXPECT_EQ(k, rows_of(all, 2, 6, {{3, 7}}));
  }
}

TEST_F(TensorFileTest, TakesBigEndianFloats) {
  // 1.0, -2.5, the smallest subnormal number: bytes from high to low.
  const unsigned char bytes[3 * 4] = {0x3f, 0x80, 0, 0, 0xc0, 0x20, 0, 0, 0, 0, 0, 1};
  make_input(comm, path, H5T_IEEE_F32BE, {1, 3, 1, 1}, bytes);
  const InputFile file = tensor_file(settings_for(path), comm);
  EXPECT_EQ(file.type(), DType::float32);
  const Interval rows = share(3, comm);
  std::vector<float> q(std::size_t(rows.size()));
  file.read({{"/q", q.data()}}, {rows}, comm);
  const std::vector<float> all{1.0f, -2.5f, std::numeric_limits<float>::denorm_min()};
  EXPECT_EQ(q, rows_of(all, 1, 1, {rows}));
}

TEST_F(TensorFileTest, TakesBigEndianHalves) {
  const unsigned char bytes[2 * 2] = {0x3c, 0x01, 0xc0, 0x49};
  test::on_root(comm, [&] {
    const hid_t half = H5Tcopy(H5T_IEEE_F32BE);
    H5Tset_fields(half, 15, 10, 5, 0, 10);
    H5Tset_size(half, 2);
    H5Tset_ebias(half, 15);
    for (const char* name : {"q", "k", "v"}) add_dataset(path, name, half, {1, 1, 1, 2}, bytes);
    H5Tclose(half);
  });
  const InputFile file = tensor_file(settings_for(path), comm);
  EXPECT_EQ(file.type(), DType::float16);
  std::uint16_t bits[2] = {};
  read_rows(file.inspected(), {"/k", bits}, {{0, 1}});
  EXPECT_EQ(bits[0], 0x3c01);
  EXPECT_EQ(bits[1], 0xc049);
}

TEST_F(TensorFileTest, TakesChunkedCompressedDatasets) {
  const auto all = counting<float>(10 * 2 * 3);
  test::on_root(comm, [&] {
    const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT);
    const hsize_t extents[4] = {1, 10, 2, 3}, chunk[4] = {1, 4, 1, 3};
    const hid_t space = H5Screate_simple(4, extents, nullptr), creation = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(creation, 4, chunk);
    H5Pset_deflate(creation, 4);
    for (const char* name : {"q", "k", "v"}) {
      const hid_t dataset = H5Dcreate2(file, name, H5T_IEEE_F32LE, space, H5P_DEFAULT, creation, H5P_DEFAULT);
      H5Dwrite(dataset, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, all.data());
      H5Dclose(dataset);
    }
    H5Pclose(creation);
    H5Sclose(space);
    H5Fclose(file);
  });
  const Interval rows = share(10, comm);
  std::vector<float> q(std::size_t(rows.size() * 6));
  tensor_file(settings_for(path), comm).read({{"/q", q.data()}}, {rows}, comm);
  EXPECT_EQ(q, rows_of(all, 1, 6, {rows}));
}

/// A bad input file, which `make` makes on rank 0, and what the error says of it.
struct BadInput {
  const char* name;
  std::function<void(const std::string&)> make;
  std::string says;
};

using Extents = std::vector<hsize_t>;

void add_qkv(const std::string& path, const Extents& q, const Extents& k, const Extents& v) {
  add_dataset(path, "q", H5T_IEEE_F32LE, q);
  add_dataset(path, "k", H5T_IEEE_F32LE, k);
  add_dataset(path, "v", H5T_IEEE_F32LE, v);
}
const auto with_q = [](hid_t type, const Extents& extents) {
  return [=](const std::string& path) { add_dataset(path, "q", type, extents); };
};
const auto with = [](const Extents& q, const Extents& k, const Extents& v) {
  return [=](const std::string& path) { add_qkv(path, q, k, v); };
};

const BadInput bad_inputs[] = {
    {"missing", [](const std::string&) {}, "cannot be opened: No such file or directory"},
    {"folder", [](const std::string& path) { std::filesystem::create_directory(path); },
     "is a folder, expected an HDF5 file"},
    {"empty", [](const std::string& path) { std::ofstream file(path); }, "is not an HDF5 file"},
    {"text", [](const std::string& path) { std::ofstream(path) << std::string(5000, 'x'); }, "is not an HDF5 file"},
    {"truncated",
     [](const std::string& path) {
       add_qkv(path, {1, 64, 4, 8}, {1, 64, 4, 8}, {1, 64, 4, 8});
       std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
     },
     "HDF5 cannot open it (damaged or cut short?): truncated file"},
    {"only the signature",
     [](const std::string& path) {
       add_qkv(path, {1, 8, 4, 8}, {1, 8, 4, 8}, {1, 8, 4, 8});
       std::filesystem::resize_file(path, 12);
     },
     "HDF5 cannot open it (damaged or cut short?)"},
    {"no k", with_q(H5T_IEEE_F32LE, {1, 4, 2, 8}), "no dataset /k (in the file: /q)"},
    {"nothing in it",
     [](const std::string& path) { H5Fclose(H5Fcreate(path.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT)); },
     "no dataset /q (in the file: nothing)"},
    {"a group",
     [](const std::string& path) {
       add_dataset(path, "q/data", H5T_IEEE_F32LE, {1, 4, 2, 8});
     },
     "/q is a group, expected a dataset"},
    {"integers", with_q(H5T_STD_I32LE, {1, 4, 2, 8}),
     "dataset /q is 32-bit integer, expected float64, float32, float16 or bfloat16"},
    {"long double", with_q(H5T_NATIVE_LDOUBLE, {1, 4, 2, 8}), "dataset /q is 128-bit float, expected float64"},
    {"text dataset", with_q(H5T_C_S1, {1, 4, 2, 8}), "dataset /q is text, expected float64"},
    {"three axes", with_q(H5T_IEEE_F32LE, {4, 2, 8}),
     "dataset /q has 3 axes (4, 2, 8), expected 4: (batch, sequence, heads, head_dim)"},
    {"no axes", with_q(H5T_IEEE_F32LE, {}), "dataset /q has 0 axes (), expected 4"},
    {"no rows", with({1, 0, 2, 8}, {1, 0, 2, 8}, {1, 0, 2, 8}), "dataset /q is empty: (1, 0, 2, 8)"},
    {"head_dim", with({1, 4, 2, 577}, {1, 4, 2, 577}, {1, 4, 2, 577}),
     "dataset /q has head_dim 577, expected 1 to 576"},
    {"batch", with({2, 4, 2, 8}, {1, 4, 2, 8}, {2, 4, 2, 8}),
     "dataset /k has shape (1, 4, 2, 8), expected (2, 4, kv_heads, 8) to fit q (2, 4, 2, 8)"},
    {"sequence", with({1, 4, 2, 8}, {1, 4, 2, 8}, {1, 5, 2, 8}),
     "dataset /v has shape (1, 5, 2, 8), expected (1, 4, kv_heads, 8) to fit q (1, 4, 2, 8)"},
    {"dims", with({1, 4, 2, 8}, {1, 4, 2, 7}, {1, 4, 2, 8}), "dataset /k has shape (1, 4, 2, 7)"},
    {"kv heads", with({1, 4, 4, 8}, {1, 4, 3, 8}, {1, 4, 3, 8}),
     "dataset /k has 3 heads, expected a divisor of the 4 heads of q"},
    {"more kv heads", with({1, 4, 2, 8}, {1, 4, 4, 8}, {1, 4, 4, 8}), "dataset /k has 4 heads, expected a divisor of"},
    {"k and v differ", with({1, 4, 4, 8}, {1, 4, 4, 8}, {1, 4, 2, 8}), "dataset /v has 2 heads, expected 4 as k"},
    {"types differ",
     [](const std::string& path) {
       add_dataset(path, "q", H5T_IEEE_F32LE, {1, 4, 2, 8});
       add_dataset(path, "k", H5T_IEEE_F64LE, {1, 4, 2, 8});
       add_dataset(path, "v", H5T_IEEE_F32LE, {1, 4, 2, 8});
     },
     "dataset /k is float64, expected float32 as "},
};

TEST_F(TensorFileTest, NamesWhatIsWrong) {
  for (const BadInput& bad : bad_inputs) {
    SCOPED_TRACE(bad.name);
    const std::string file = folder / (std::string(bad.name) + ".h5");
    test::on_root(comm, [&] { bad.make(file); });
    expect_error(file, bad.says, [&] { tensor_file(settings_for(file), comm); });
  }
}

TEST_F(TensorFileTest, NamesSomeOfManyDatasetsAndTheMostSimilar) {
  const auto refused = [&](int count, const std::string& asked) {
    const std::string file = folder / fmt::format("{}_{}.h5", count, asked);
    test::on_root(comm, [&] {
      for (int i = 10; i < 10 + count; ++i) add_dataset(file, fmt::format("layer_{}_q", i), H5T_IEEE_F32LE, {1});
    });
    runfile::InputSettings settings = settings_for(file);
    settings.q = asked;
    return common_error(comm, [&] { tensor_file(settings, comm); });
  };
  const auto expect = [&](int count, const std::string& asked, const std::string& words) {
    const std::string text = refused(count, asked);
    EXPECT_NE(text.find(words + "; input.q names it"), std::string::npos) << text;
  };
  expect(12, "other", "/layer_20_q, /layer_21_q)");
  expect(13, "other", "/layer_20_q, /layer_21_q, ...)");
  expect(40, "layer_49_Q", "/layer_21_q, ...), did you mean '/layer_49_q'?");
  expect(40, "q", "/layer_21_q, ...)");
}

TEST_F(TensorFileTest, NamesWhatIsWrongWithDocuments) {
  make_input(comm, path, H5T_IEEE_F32LE, {1, 9, 1, 1, 2});
  test::on_root(comm, [&] {
    const auto add = [&](const char* name, std::vector<std::int64_t> offsets) {
      add_dataset(path, name, H5T_STD_I64LE, {hsize_t(offsets.size())}, offsets.data());
    };
    add("long", {0, 4, 10});
    add("late", {1, 9});
    add("one", {0});
    add("down", {0, 6, 4, 9});
    add_dataset(path, "floats", H5T_IEEE_F32LE, {2});
    add_dataset(path, "table", H5T_STD_I64LE, {1, 2});
  });
  const std::vector<std::pair<std::string, std::string>> cases{
      {"none_there", "no dataset none_there (in the file: "},
      {"long", "dataset long has 3 offsets, 0 ... 10, expected 2 or more, from 0 to at most 9"},
      {"late", "dataset late has 2 offsets, 1 ... 9, expected 2 or more, from 0 to at most 9"},
      {"one", "dataset one has 1 offsets, 0 ... 0, expected 2 or more, from 0 to at most 9"},
      {"down", "dataset down: offset 4 after 6 at [2], expected ascending offsets"},
      {"floats", "dataset floats is float32 with 1 axes, expected int64 with 1"},
      {"table", "dataset table is 64-bit integer with 2 axes, expected int64 with 1"}};
  for (const auto& [name, says] : cases) {
    runfile::InputSettings settings = settings_for(path);
    settings.documents = name;
    expect_error(path, says, [&] { tensor_file(settings, comm); });
  }
}

TEST_F(TensorFileTest, ReadsWhichRowsExist) {
  make_input(comm, path, H5T_IEEE_F32LE, {2, 9, 1, 1, 2});
  test::on_root(comm, [&] {
    const std::vector<std::int64_t> offsets{0, 4, 7}, lengths{5, 9}, ranges{2, 6, 9, 9};
    add_dataset(path, "documents", H5T_STD_I64LE, {3}, offsets.data());
    add_dataset(path, "lengths", H5T_STD_I64LE, {2}, lengths.data());
    add_dataset(path, "ranges", H5T_STD_I64LE, {2, 2}, ranges.data());
  });
  using core::Interval;
  const auto look = [&](auto runfile::InputSettings::*key, const char* name) {
    runfile::InputSettings settings = settings_for(path);
    settings.*key = name;
    return tensor_file(settings, comm);
  };
  const InputFile shorter = look(&runfile::InputSettings::documents, "documents");
  EXPECT_EQ(shorter.documents(), pattern::documents_at({{0, 4}, {4, 7}}, 9));
  EXPECT_EQ(shorter.inspected().left_out, (std::vector<Interval>{{7, 9}})) << "in each entry";
  EXPECT_FALSE(shorter.inspected().is_end_to_end);
  const InputFile ends = look(&runfile::InputSettings::lengths, "lengths");
  EXPECT_EQ(ends.documents(), pattern::documents_at({{0, 5}, {9, 18}}, 18)) << "entries end to end";
  EXPECT_EQ(ends.inspected().left_out, (std::vector<Interval>{{5, 9}}));
  EXPECT_TRUE(ends.inspected().is_end_to_end);
  EXPECT_EQ(ends.shape().sequence, 9) << "as in the file";
  const InputFile both = look(&runfile::InputSettings::lengths, "ranges");
  EXPECT_EQ(both.documents(), pattern::documents_at({{2, 6}, {18, 18}}, 18));
}

TEST_F(TensorFileTest, NamesWhatIsWrongWithLengths) {
  make_input(comm, path, H5T_IEEE_F32LE, {2, 9, 1, 1, 2});
  test::on_root(comm, [&] {
    const auto add = [&](const char* name, const std::vector<hsize_t>& extents,
                         const std::vector<std::int64_t>& numbers) {
      add_dataset(path, name, H5T_STD_I64LE, extents, numbers.data());
    };
    add("three", {3}, {1, 2, 3});
    add("triples", {2, 3}, {0, 1, 2, 0, 1, 2});
    add("long", {2}, {9, 10});
    add("negative", {2}, {-1, 9});
    add("turned", {2, 2}, {0, 9, 5, 4});
    add("cube", {2, 1, 1}, {1, 2});
    add_dataset(path, "floats", H5T_IEEE_F32LE, {2});
  });
  const std::vector<std::pair<std::string, std::string>> cases{
      {"three", "dataset three has shape (3), expected (2) or (2, 2) to fit 2 batch entries"},
      {"triples", "dataset triples has shape (2, 3), expected (2) or (2, 2) to fit 2 batch entries"},
      {"long", "dataset long: batch entry 1 has rows [0, 10), expected 0 <= begin <= end <= 9"},
      {"negative", "dataset negative: batch entry 0 has rows [0, -1), expected 0 <= begin <= end <= 9"},
      {"turned", "dataset turned: batch entry 1 has rows [5, 4), expected 0 <= begin <= end <= 9"},
      {"cube", "dataset cube is 64-bit integer with 3 axes, expected int64 with 1 or 2: (batch) or (batch, 2)"},
      {"floats", "dataset floats is float32 with 1 axes, expected int64 with 1 or 2: (batch) or (batch, 2)"}};
  for (const auto& [name, says] : cases) {
    runfile::InputSettings settings = settings_for(path);
    settings.lengths = name;
    expect_error(path, says, [&] { tensor_file(settings, comm); });
  }
}

/// Puts `bad` (NaN or infinity) at three positions; the error names the first, whichever rank reads it.
template <class T>
void expect_named(DType type, hid_t file_type, T bad, const std::string& value) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  const SharedFolder folder(comm);
  const std::string path = folder / "in.h5";
  test::on_root(comm, [&] {
    add_dataset(path, "q", file_type, {2, 9, 4, 3});
    add_dataset(path, "k", file_type, {2, 9, 2, 3});
    std::vector<T> v(2 * 9 * 2 * 3, T(1));
    v[((1 * 9 + 8) * 2 + 1) * 3 + 2] = bad;  // the very last number
    v[((0 * 9 + 7) * 2 + 1) * 3 + 0] = bad;  // [0, 7, 1, 0]: before those of batch entry 1
    v[((1 * 9 + 0) * 2 + 0) * 3 + 1] = bad;
    add_dataset(path, "v", file_type, {2, 9, 2, 3}, v.data());
  });
  const InputFile file = tensor_file(settings_for(path), comm);
  ASSERT_EQ(file.type(), type);
  // Rank p of P holds rows p, p + P, ..., so that neighbouring rows are on different ranks.
  std::vector<Interval> rows;
  for (Index row = comm.rank(); row < 9; row += comm.size()) rows.push_back({row, row + 1});
  std::vector<T> k(rows.size() * 2 * 2 * 3), v = k;
  const std::string message = common_error(comm, [&] { file.read({{"/k", k.data()}, {"/v", v.data()}}, rows, comm); });
  EXPECT_EQ(message, path + ": dataset /v holds " + value + " at [0, 7, 1, 0], expected finite numbers");
}

TEST(TensorFile, NamesTheFirstNumberThatIsNone) {
  expect_named<float>(DType::float32, H5T_IEEE_F32LE, std::numeric_limits<float>::quiet_NaN(), "nan");
  expect_named<double>(DType::float64, H5T_IEEE_F64LE, -std::numeric_limits<double>::infinity(), "-inf");
}

TEST_F(TensorFileTest, OneRankThatCannotReadTheFileIsEveryonesError) {
  make_input(comm, path, H5T_IEEE_F32LE, {1, 8, 1, 1, 2});
  const Interval rows = share(8, comm);
  std::vector<float> q(16);
  // The last rank looks elsewhere, as on a node where the folder is not mounted.
  const bool last = comm.rank() == comm.size() - 1 && comm.size() > 1;
  if (comm.size() > 1) {
    const std::string message =
        common_error(comm, [&] { tensor_file(settings_for(last ? path + ".away" : path), comm); });
    EXPECT_EQ(message,
              fmt::format("rank {}: {}.away: cannot be opened: No such file or directory", comm.size() - 1, path));
  }
  const InputFile file = tensor_file(settings_for(path), comm);
  const std::vector<Interval> wrong{comm.rank() == comm.size() - 1 ? Interval{4, 9} : rows};
  const std::string message = common_error(comm, [&] { file.read({{"/q", q.data()}}, wrong, comm); });
  EXPECT_NE(message.find("dataset /q: batch entry 0, rows 4 to 8, heads [0, 1) of (1, 8, 1, 2)"), std::string::npos)
      << message;
  file.read({{"/q", q.data()}}, {rows}, comm);  // all ranks can still communicate
}

}  // namespace
}  // namespace annulus::store
