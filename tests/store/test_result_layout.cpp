// What a result file looks like to other programs.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <thread>

#include "annulus/store/files/file_system.hpp"
#include "annulus/store/hdf5/attributes.hpp"
#include "annulus/store/input_file.hpp"
#include "annulus/store/output_file.hpp"
#include "store/hdf5_files.hpp"

namespace annulus::store {
namespace {

using core::DType;
using core::Shape;

/// Standard output of a command; checks that its exit status is 0.
std::string output_of(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  std::string text;
  std::array<char, 4096> part{};
  while (const std::size_t read = fread(part.data(), 1, part.size(), pipe)) text.append(part.data(), read);
  EXPECT_EQ(pclose(pipe), 0) << command << "\n" << text;
  return text;
}

std::string text_attribute(const std::string& path, const std::string& object, const std::string& name) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t attribute = H5Aopen_by_name(file, object.c_str(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT);
  EXPECT_GE(attribute, 0) << object << " has no attribute " << name;
  std::string text;
  if (attribute >= 0) {
    const hid_t type = H5Aget_type(attribute);
    EXPECT_GT(H5Tis_variable_str(type), 0);
    char* words = nullptr;
    H5Aread(attribute, type, &words);
    text = words;
    H5free_memory(words);
    H5Tclose(type);
    H5Aclose(attribute);
  }
  H5Fclose(file);
  return text;
}

std::vector<double> numbers(const std::string& path, const std::string& name, std::size_t count) {
  std::vector<double> values(count);
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t dataset = H5Dopen2(file, name.c_str(), H5P_DEFAULT);
  EXPECT_GE(H5Dread(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0) << name;
  H5Dclose(dataset);
  H5Fclose(file);
  return values;
}

const Shape shape{1, 4, 1, 1, 2};
// 1, 1 + 2^-7, -3.140625, 0, the largest, the smallest subnormal, -0, infinity
const std::array<std::uint16_t, 8> brain{0x3f80, 0x3f81, 0xc049, 0x0000, 0x7f7f, 0x0001, 0x8000, 0x7f80};
const std::vector<float> lse{0.5f, 1.5f, -INFINITY, 2.5f};

void make_result(const std::string& path, const comm::Communicator& comm, const Record& record) {
  OutputFile file(output_plan({path, true},
                              {tensor_spec("out", DType::bfloat16, shape), tensor_spec("lse", DType::float32, shape)}),
                  comm);
  file.write({{"out", brain.data()}, {"lse", lse.data()}}, {{0, 4}}, RowOwners(pattern::contiguous_partition(4, 1)));
  file.publish(record);
}

class ResultLayout : public testing::Test {
 protected:
  const comm::Communicator comm{MPI_COMM_WORLD};
  const test::ScratchFolder folder;
  const std::string path = folder / "out.h5";
  const Record record{"input:\n  file: ä.h5\n",
                      {{"compute_seconds", "s", "time", "rank", {2}, {0.25, 0.5}},
                       {"bytes_sent", "bytes", "bytes sent", "rank hop", {2, 3}, {1, 2, 3, 4, 5, 6}},
                       {"backward/none", "s", "nothing", "rank hop", {2, 0}, {}}},
                      {{"software", "annulus"}, {"empty", ""}}};
};

TEST_F(ResultLayout, DatasetsAndAttributes) {
  make_result(path, comm, record);
  EXPECT_EQ(text_attribute(path, "/out", "axes"), "batch sequence head dim");
  EXPECT_EQ(text_attribute(path, "/lse", "axes"), "batch sequence head");
  EXPECT_EQ(text_attribute(path, "/out", "units"), "1");
  EXPECT_EQ(text_attribute(path, "/out", "dtype"), "bfloat16");
  EXPECT_EQ(text_attribute(path, "/lse", "dtype"), "float32");
  EXPECT_EQ(look_at_dataset(path, "/out").extents, (std::vector<Index>{1, 4, 1, 2}));
  EXPECT_EQ(look_at_dataset(path, "/out").type, DType::bfloat16);
  EXPECT_EQ(look_at_dataset(path, "/lse").extents, (std::vector<Index>{1, 4, 1}));
}

TEST_F(ResultLayout, ListsOfTopRows) {
  const TensorSpec entropy = tensor_spec("entropy", DType::float32, shape);
  OutputFile(output_plan({path, true},
                         {entropy, tensor_spec("top_rows", NumberType::int64(), shape, core::AxisOrder::bshd, 0, 3)}),
             comm)
      .publish({});
  EXPECT_EQ(text_attribute(path, "/entropy", "units"), "nats");
  EXPECT_EQ(text_attribute(path, "/top_rows", "units"), "1");
  EXPECT_EQ(text_attribute(path, "/top_rows", "dtype"), "int64");
  EXPECT_EQ(text_attribute(path, "/top_rows", "axes"), "batch sequence head top");
  EXPECT_EQ(numbers(path, "/top", 3), std::vector<double>(3)) << "a dimension scale";
  EXPECT_EQ(tensor_spec("top_rows", NumberType::int64(), shape, core::AxisOrder::bhsd, 0, 3).axes,
            "batch head sequence top");
}

TEST_F(ResultLayout, RunAndProvenance) {
  make_result(path, comm, record);
  EXPECT_EQ(read_text_dataset(path, "/run/settings"), record.settings);
  EXPECT_EQ(numbers(path, "/run/compute_seconds", 2), record.columns[0].values);
  EXPECT_EQ(numbers(path, "/run/bytes_sent", 6), record.columns[1].values);
  EXPECT_EQ(look_at_dataset(path, "/run/bytes_sent").extents, (std::vector<Index>{2, 3}));
  EXPECT_EQ(look_at_dataset(path, "/run/backward/none").extents, (std::vector<Index>{2, 0}));
  EXPECT_EQ(text_attribute(path, "/run/bytes_sent", "units"), "bytes");
  EXPECT_EQ(text_attribute(path, "/run/bytes_sent", "long_name"), "bytes sent");
  EXPECT_EQ(text_attribute(path, "/provenance", "software"), "annulus");
  EXPECT_EQ(text_attribute(path, "/provenance", "empty"), "");
}

/// What HDF5's tool h5dump prints of an object, for example the dimension scales of the object's axes.
std::string scales_of(const std::string& path, const std::string& object) {
  return output_of("h5dump -A -d '" + object + "' '" + path + "'");
}

TEST_F(ResultLayout, AxesAreDimensionScales) {
  make_result(path, comm, record);
  for (const auto& [object, scales] : std::map<std::string, std::vector<std::string>>{
           {"/out", {"/batch", "/sequence", "/head", "/dim"}},
           {"/lse", {"/batch", "/sequence", "/head"}},
           {"/run/compute_seconds", {"/run/rank"}},
           {"/run/bytes_sent", {"/run/rank", "/run/hop"}},
           {"/run/backward/none", {"/run/backward/rank", "/run/backward/hop"}}}) {
    const std::string dump = scales_of(path, object);
    std::size_t at = dump.find("DIMENSION_LIST");
    ASSERT_NE(at, std::string::npos) << dump;
    for (const std::string& scale : scales) {  // in the order of the axes
      at = dump.find("\"" + scale + "\"", at);
      EXPECT_NE(at, std::string::npos) << scale << " is missing, or in another place:\n" << dump;
    }
  }
  const std::string sequence = scales_of(path, "/sequence");
  for (const char* words :
       {"DIMENSION_SCALE", "This is a netCDF dimension but not a netCDF variable.         4", "( 4 ) / ( 4 )"}) {
    EXPECT_NE(sequence.find(words), std::string::npos) << words << " is missing:\n" << sequence;
  }
}

TEST_F(ResultLayout, AScaleTakesAByteForEachEntryAndIsZero) {
  const Shape wide{1, 100'000, 1, 1, 1};
  OutputFile(output_plan({path, true}, {tensor_spec("lse", DType::float32, wide)}), comm).publish({});
  EXPECT_EQ(numbers(path, "/sequence", 100'000), std::vector<double>(100'000));
  FileId file = open_alone(path, false);
  const DatasetId scale(H5Dopen2(file, "sequence", H5P_DEFAULT));
  EXPECT_EQ(H5Dget_storage_size(scale), 100'000u);
  EXPECT_TRUE(is_bare_scale(scale));
  EXPECT_FALSE(is_bare_scale(DatasetId(H5Dopen2(file, "lse", H5P_DEFAULT))));
  EXPECT_LT(std::filesystem::file_size(path), 500'000u + 16384u);
}

TEST_F(ResultLayout, AnAxisHasOneLength) {
  FileId file = create_alone(path);
  for (const char* name : {"a", "b"}) {
    const DatasetId made(H5Dcreate2(file, name, H5T_IEEE_F32LE, space_of({2}), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  }
  const auto message = [&](const std::vector<NamedAxes>& datasets) -> std::string {
    try {
      add_dimension_scales(file, datasets);
    } catch (const core::Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_NE(message({{"a", {2}, "head"}, {"b", {3}, "head"}}).find("axis head of b has two lengths"),
            std::string::npos);
  EXPECT_NE(message({{"a", {2}, "head dim"}}).find("names of the axes of a"), std::string::npos);
}

TEST_F(ResultLayout, FewerKeyHeadsAreAnAxisOfTheirOwn) {
  const Shape grouped{1, 4, 6, 2, 8};
  EXPECT_EQ(tensor_spec("dk", DType::float32, grouped).axes, "batch sequence kv_head dim");
  EXPECT_EQ(tensor_spec("dk", DType::float32, grouped, core::AxisOrder::bhsd).axes, "batch kv_head sequence dim");
  EXPECT_EQ(tensor_spec("dq", DType::float32, grouped).axes, "batch sequence head dim");
  EXPECT_EQ(tensor_spec("dk", DType::float32, shape).axes, "batch sequence head dim");
}

TEST_F(ResultLayout, AxesAreNoneOfTheDatasetsThatAreOffered) {
  make_result(path, comm, {});
  try {
    look_at_dataset(path, "q");
    ADD_FAILURE() << "there is no q";
  } catch (const core::Error& error) {
    EXPECT_EQ(std::string(error.what()), path + ": no dataset q (in the file: /lse, /out)");
  }
}

TEST_F(ResultLayout, OtherProgramsSeeBfloat16AsNumbers) {
  make_result(path, comm, record);
  const std::string dump = output_of("h5dump -d /out '" + path + "'");
  EXPECT_NE(dump.find("16-bit little-endian floating-point"), std::string::npos) << dump;
  EXPECT_NE(dump.find("1, 1.00781"), std::string::npos) << dump;
  // HDF5 itself converts bfloat16 to any other floating-point type.
  const std::vector<double> values = numbers(path, "/out", 8);
  EXPECT_EQ(values, (std::vector<double>{1, 1.0078125, -3.140625, 0, 0x1.fep127, 0x1p-133, -0.0, INFINITY}));
}

TEST_F(ResultLayout, NothingButRunAndProvenanceTellsRunsApart) {
  make_result(path, comm, record);
  make_result(folder / "other.h5", comm, {"output: {}\n", {}, {{"software", "another"}, {"date", "tomorrow"}}});
  output_of(fmt::format("h5diff --exclude-path=/run --exclude-path=/provenance '{}' '{}'", path, folder / "other.h5"));
}

TEST_F(ResultLayout, SameInputSameBytes) {
  const auto content = [](const std::string& name) {
    std::ifstream file(name, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  make_result(path, comm, {});
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // over 1 s, because HDF5 could store times
  make_result(folder / "again.h5", comm, {});
  EXPECT_EQ(content(path), content(folder / "again.h5"));
  EXPECT_LT(content(path).size(), 16384u);  // reserved but unused space is given back
}

TEST_F(ResultLayout, AColumnHasAsManyNumbersAsItsExtentsSay) {
  const Record wrong{"x: 1\n", {{"seconds", "s", "time", "rank", {3}, {1, 2}}}, {}};
  const std::string message = test::common_error(comm, [&] { make_result(path, comm, wrong); });
  EXPECT_NE(message.find("values of column seconds"), std::string::npos) << message;
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(Place, TakesRoomOrSaysThatThereIsNone) {
  const test::ScratchFolder folder;
  const std::string path = folder / "room";
  const Descriptor file(path, O_RDWR | O_CREAT, 0600);
  reserve(file, path, 5000);
  EXPECT_EQ(std::filesystem::file_size(path), 5000u);
  extend(file, path, 300);
  EXPECT_EQ(std::filesystem::file_size(path), 5300u);
  try {
    reserve(file, path, Index(1) << 62);
    ADD_FAILURE() << "no file system is that large";
  } catch (const core::Error& error) {
    EXPECT_EQ(std::string(error.what()).find(path + ": no room for 4611686018427387904 bytes: "), 0u) << error.what();
  }
  EXPECT_EQ(std::filesystem::file_size(path), 5300u);
}

TEST(LookAtDataset, NamesWhatIsWrong) {
  const test::ScratchFolder folder;
  const std::string path = folder / "x.h5";
  test::add_dataset(path, "ints", H5T_STD_I64LE, {2});
  const hid_t text = H5Tcopy(H5T_C_S1);
  H5Tset_size(text, H5T_VARIABLE);
  test::add_dataset(path, "two texts", text, {2});
  H5Tclose(text);
  const auto error = [&](auto work) -> std::string {
    try {
      work();
    } catch (const core::Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(look_at_dataset(path, "ints").type, NumberType::int64());
  EXPECT_EQ(error([&] { look_at_dataset(path, "two texts"); }),
            path + ": dataset two texts is text, expected float64, float32, float16, bfloat16 or int64");
  EXPECT_EQ(error([&] { look_at_dataset(path, "out"); }), path + ": no dataset out (in the file: /ints, /two texts)");
  const hid_t fixed = H5Tcopy(H5T_C_S1);
  H5Tset_size(fixed, 8);
  test::add_dataset(path, "fixed", fixed, {1}, "a: 1\n\0\0");
  H5Tclose(fixed);
  EXPECT_EQ(read_text_dataset(path, "fixed"), "a: 1\n") << "text of fixed length, as h5py may write it";
  for (const std::string name : {"ints", "two texts"}) {
    EXPECT_EQ(
        error([&] { read_text_dataset(path, name); }).find(fmt::format("{}: dataset {} holds no text", path, name)),
        0u);
  }
}

}  // namespace
}  // namespace annulus::store
