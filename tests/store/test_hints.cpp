// output.hints and output.alignment: which hints MPI gets when a file is made, that an existing file is not opened
// instead, and where datasets start. This program defines MPI_File_open itself, and so records its arguments.
#include <gtest/gtest.h>
#include <hdf5.h>
#include <mpi.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "annulus/store/output_file.hpp"
#include "store/hdf5_files.hpp"
#include "support/scratch.hpp"

namespace {

struct Opened {
  std::string name;
  int mode;
  std::string hint;  // value of the hint "mine"
  bool alone;
};
std::vector<Opened> opened;

}  // namespace

extern "C" int MPI_File_open(MPI_Comm comm, const char* name, int mode, MPI_Info info, MPI_File* file) {
  char value[64] = "";
  int found = 0;
  if (info != MPI_INFO_NULL) MPI_Info_get(info, "mine", 63, value, &found);
  opened.push_back({name, mode, found != 0 ? value : "", comm == MPI_COMM_SELF});
  return PMPI_File_open(comm, name, mode, info, file);
}

namespace annulus::store {
namespace {

const core::Shape shape{1, 64, 2, 2, 16};

std::vector<TensorSpec> specs() {
  return {tensor_spec("q", core::DType::float32, shape), tensor_spec("k", core::DType::float32, shape),
          tensor_spec("v", core::DType::float32, shape)};
}

/// Makes a file of three tensors of ones.
void make(const OutputTarget& where, const comm::Communicator& comm) {
  OutputFile file(output_plan(where, specs()), comm);
  const core::Interval rows = core::even_part(shape.sequence, comm.size(), comm.rank());
  const std::vector<float> ones(std::size_t(rows.size() * 32), 1);
  file.write({{"q", ones.data()}, {"k", ones.data()}, {"v", ones.data()}}, {rows},
             RowOwners(pattern::contiguous_partition(shape.sequence, comm.size())));
  file.publish({});
}

Index offset_of(const std::string& file, const char* dataset) {
  const hid_t id = H5Fopen(file.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), open = H5Dopen2(id, dataset, H5P_DEFAULT);
  const Index offset = Index(H5Dget_offset(open));
  H5Dclose(open);
  H5Fclose(id);
  return offset;
}

/// A folder that rank 0 makes and all ranks use.
class Hints : public ::testing::Test {
 public:
  ~Hints() override { comm.barrier(); }

 protected:
  Hints() {
    if (comm.is_root()) mine.emplace();
    folder = comm.gather_all(mine ? mine->path() : "").front();
  }
  std::string path(const std::string& name) const { return folder + "/" + name; }

  comm::Communicator comm{MPI_COMM_WORLD};
  std::optional<test::ScratchFolder> mine;
  std::string folder;
};

TEST_F(Hints, ReachMpiWhenTheFileIsMade) {
  opened.clear();
  make({path("made.h5"), false, {}, {{"mine", "7"}, {"striping_factor", "2"}}}, comm);
  ASSERT_EQ(opened.size(), comm.is_root() ? 1U : 0U) << "rows are written without MPI";
  for (const Opened& one : opened) {
    EXPECT_EQ(one.hint, "7") << one.name;
    EXPECT_TRUE(one.alone);
    EXPECT_NE(one.mode & MPI_MODE_CREATE, 0);
    EXPECT_NE(one.mode & MPI_MODE_EXCL, 0) << "otherwise it would open an existing file";
  }
  EXPECT_TRUE(std::filesystem::exists(path("made.h5")));
  const auto files = std::filesystem::directory_iterator(folder);
  EXPECT_EQ(std::distance(begin(files), end(files)), 1) << "MPI left something beside it";
}

TEST_F(Hints, AreNotNeeded) {
  opened.clear();
  make({path("plain.h5"), false}, comm);
  EXPECT_TRUE(opened.empty()) << "made without MPI";
}

TEST_F(Hints, AreRefusedForAPathThatMpiWouldMisread) {
  const std::string odd = path("with:colon.h5");
  std::string message;
  try {
    make({odd, false, {}, {{"mine", "7"}}}, comm);
  } catch (const comm::AgreedError& error) {
    message = error.what();
  }
  EXPECT_NE(message.find("output.hints cannot be used with a path that has a colon in it"), std::string::npos)
      << message;
  make({odd, false}, comm);  // without hints, the name may have a colon
  EXPECT_TRUE(std::filesystem::exists(odd));
}

TEST_F(Hints, MakeAFileOnlyWhereNoneIs) {
  for (const char* name : {"there", "link"}) {
    const std::string part = path(name) + ".part";
    test::on_root(comm, [&] {
      if (std::string(name) == "there") std::ofstream(part) << "kept";
      if (std::string(name) == "link") std::filesystem::create_symlink(path("nowhere"), part);
    });
    for (const comm::FileHints& hints : {comm::FileHints{{"mine", "7"}}, comm::FileHints{}}) {
      EXPECT_THROW(make({path(name), true, {}, hints}, comm), core::Error) << name;
    }
  }
  test::on_root(comm, [&] {
    EXPECT_EQ(std::filesystem::file_size(path("there.part")), 4U);
    EXPECT_FALSE(std::filesystem::exists(path("nowhere"))) << "a link was followed";
  });
}

TEST_F(Hints, LargeDatasetsStartAtMultiplesOfTheAlignment) {
  const std::string plain = path("plain.h5"), aligned = path("aligned.h5");
  make({plain, false}, comm);
  make({aligned, false, 4096}, comm);  // q, k and v have 8192 bytes each
  test::on_root(comm, [&] {
    bool is_aligned = true;
    for (const char* name : {"q", "k", "v"}) {
      EXPECT_EQ(offset_of(aligned, name) % 4096, 0) << name;
      is_aligned = is_aligned && offset_of(plain, name) % 4096 == 0;
    }
    EXPECT_FALSE(is_aligned) << "small files stay small";
    EXPECT_LT(std::filesystem::file_size(plain), std::filesystem::file_size(aligned));
  });
  const Alignment automatic, asked(4096);
  EXPECT_EQ(automatic.from, 16 << 20);
  EXPECT_EQ(automatic.step, 1 << 20);
  EXPECT_EQ(bytes_of(specs(), asked), bytes_of(specs(), Alignment(INT64_MAX)) + 3 * 4096);
  EXPECT_EQ(bytes_of(specs(), automatic), bytes_of(specs(), Alignment(INT64_MAX)));
  comm.barrier();
}

}  // namespace
}  // namespace annulus::store
