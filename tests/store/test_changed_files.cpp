// Files that change while a run reads them: every way of reading notices it, and no buffer is overrun.
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "annulus/store/input_file.hpp"
#include "store/tensor_inputs.hpp"

namespace annulus::store {
namespace {

using core::DType;
using core::Interval;
using test::add_dataset;
using test::common_error;
using test::make_input;
using test::settings_for;
using test::share;

/// in.h5 with q, k, v (1, 12, 2, 4) of float32 zeros.
class ChangedFileTest : public test::InputFileTest {
 protected:
  ChangedFileTest() { make_input(comm, path, H5T_IEEE_F32LE, {1, 12, 2, 2, 4}); }

  /// Replaces in.h5 by a file with this type and these extents, by renaming or by overwriting the old file.
  void replace(hid_t type, const std::vector<hsize_t>& extents, bool rename = true) const {
    test::on_root(comm, [&] {
      const std::string other = folder / "other.h5";
      const std::vector<double> zeros(12 * 2 * 64);  // written, so that the file has room for them
      for (const char* name : {"q", "k", "v"}) add_dataset(other, name, type, extents, zeros.data());
      if (rename) {
        std::filesystem::rename(other, path);
      } else {
        std::filesystem::copy_file(other, path, std::filesystem::copy_options::overwrite_existing);
        std::filesystem::remove(other);
      }
    });
  }
  /// Overwrites the numbers of q in the same file.
  void write_in_place() const {
    test::on_root(comm, [&] {
      const std::vector<float> ones(12 * 2 * 4, 1.0f);
      const auto before = std::filesystem::last_write_time(path);
      // Writes until the time changes, because file systems store times only to some milliseconds.
      for (int i = 0; i < 100 && std::filesystem::last_write_time(path) == before; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
        const hid_t data = H5Dopen2(file, "q", H5P_DEFAULT);
        H5Dwrite(data, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, ones.data());
        H5Dclose(data);
        H5Fclose(file);
      }
    });
  }
  /// Errors of reading q collectively, and on each rank alone; checks that nothing is written after the rows' memory.
  std::vector<std::string> read_errors(const InputFile& file) const {
    const Interval rows = share(12, comm);
    const std::size_t own = std::size_t(rows.size() * 8);
    std::vector<float> q(own + 4096, -1.0f);
    std::vector<std::string> errors;
    errors.push_back(common_error(comm, [&] { file.read({{"/q", q.data()}}, {rows}, comm); }));
    errors.push_back(common_error(comm, [&] {
      comm::agree(comm, [&] { read_rows(file.inspected(), {"/q", q.data()}, {{0, rows.size()}}); });
    }));
    EXPECT_EQ(q.back(), -1.0f);
    EXPECT_TRUE(std::all_of(q.begin() + std::ptrdiff_t(own), q.end(), [](float x) { return x == -1.0f; }));
    return errors;
  }
  void expect_changed(const InputFile& file, const std::string& what) const {
    for (const std::string& error : read_errors(file)) {
      EXPECT_EQ(error.find(path + ": changed since the run looked at it first: "), 0u) << error;
      EXPECT_NE(error.find(what), std::string::npos) << error;
    }
  }
};

TEST_F(ChangedFileTest, AnotherFileInItsPlaceIsRefused) {
  const InputFile file = tensor_file(settings_for(path), comm);
  replace(H5T_IEEE_F32LE, {1, 12, 2, 4});  // of the same shape
  expect_changed(file, "inode ");
}

TEST_F(ChangedFileTest, LargerHeadsAndNumbersAreRefused) {
  for (const bool rename : {true, false}) {
    const InputFile file = tensor_file(settings_for(path), comm);
    replace(H5T_IEEE_F64LE, {1, 12, 2, 64}, rename);
    expect_changed(file, " bytes");
    replace(H5T_IEEE_F32LE, {1, 12, 2, 4}, rename);
  }
}

TEST_F(ChangedFileTest, NumbersWrittenIntoItAreRefused) {
  const InputFile file = tensor_file(settings_for(path), comm);
  write_in_place();
  expect_changed(file, "modified ");
}

TEST_F(ChangedFileTest, TimesBefore1970AreNamed) {
  const Index second = 1'000'000'000;
  for (const auto& [modified, text] : {std::pair<Index, std::string>(-second / 2, "1969-12-31 23:59:59.500000000"),
                                       {-2 * second, "1969-12-31 23:59:58.000000000"},
                                       {second / 2, "1970-01-01 00:00:00.500000000"}}) {
    FileState seen = state_of(path);
    seen.modified = modified;
    const std::string error = common_error(comm, [&] { comm::agree(comm, [&] { check_unchanged(path, seen); }); });
    EXPECT_NE(error.find(": modified " + text + " -> "), std::string::npos) << error;
  }
}

TEST_F(ChangedFileTest, OneThatIsGoneIsRefused) {
  const InputFile file = tensor_file(settings_for(path), comm);
  test::on_root(comm, [&] { std::filesystem::remove(path); });
  for (const std::string& error : read_errors(file)) {
    EXPECT_EQ(error, path + ": cannot be opened: No such file or directory");
  }
}

TEST_F(ChangedFileTest, LinksAndRightsAreNoChange) {
  const InputFile file = tensor_file(settings_for(path), comm);
  test::on_root(comm, [&] {
    std::filesystem::create_hard_link(path, folder / "kept.h5");
    chmod(path.c_str(), 0400);
  });
  const Interval rows = share(12, comm);
  std::vector<float> q(std::size_t(rows.size() * 8), 1);
  EXPECT_NO_THROW(file.read({{"/q", q.data()}}, {rows}, comm));
}

/// Buffers are as large as an InspectedFile says, so a read compares extents and type, not only the file's identity.
TEST_F(ChangedFileTest, ExtentsAndTypeAreHeldAgainstTheFirstLook) {
  std::vector<float> host(12 * 2 * 4 + 4096, -1.0f);
  for (const DatasetInfo& info :
       {DatasetInfo{{1, 12, 2, 2}, DType::float32}, DatasetInfo{{1, 12, 2, 4}, DType::float16},
        DatasetInfo{{1, 12, 4, 2}, DType::float32}, DatasetInfo{{1, 24, 4}, DType::float32}}) {
    const InspectedFile seen{path, agreed_state(path, comm), {{"/q", info}}};
    const std::string says = fmt::format("{}: dataset /q is float32 (1, 12, 2, 4), it was {} ({}) when the run", path,
                                         name_of(info.type), fmt::join(info.extents, ", "));
    const std::string error = common_error(comm, [&] {
      comm::agree(comm, [&] { read_rows(seen, {"/q", host.data()}, {{0, 1}}); });
    });
    EXPECT_EQ(error.find(says), 0u) << error;
  }
  EXPECT_TRUE(std::all_of(host.begin(), host.end(), [](float x) { return x == -1.0f; }));
}

TEST_F(ChangedFileTest, PartsOfMatricesToo) {
  const std::string weights = folder / "w.h5";
  test::on_root(comm, [&] { add_dataset(weights, "w", H5T_IEEE_F64LE, {4, 6}); });
  const Rectangle all{{0, 4}, {0, 6}};
  std::vector<float> host(4 * 6 + 64, -1.0f);
  const InspectedFile seen{weights, agreed_state(weights, comm), {{"w", {{4, 6}, DType::float32}}}};
  const std::string message = common_error(comm, [&] { read_parts(seen, {{"w", all, all, host.data()}}, comm); });
  EXPECT_EQ(message.find(weights + ": dataset w is float64 (4, 6), it was float32 (4, 6) when the run"), 0u) << message;
  EXPECT_TRUE(std::all_of(host.begin(), host.end(), [](float x) { return x == -1.0f; }));

  const InspectedFile right = test::inspected_file(comm, weights, {"w"});
  replace(H5T_IEEE_F32LE, {1, 12, 2, 4});
  test::on_root(comm, [&] { std::filesystem::rename(path, weights); });
  const std::string changed = common_error(comm, [&] { read_parts(right, {{"w", all, all, host.data()}}, comm); });
  EXPECT_EQ(changed.find(weights + ": changed since the run looked at it first: "), 0u) << changed;
}

TEST_F(ChangedFileTest, ALayersDatasetsToo) {
  const std::string file = folder / "layer.h5";
  const auto make = [&](const std::string& name, hsize_t width) {
    test::on_root(comm, [&] {
      add_dataset(name, "x", H5T_IEEE_F32LE, {1, 12, width});
      for (const char* weight : {"wq", "wk", "wv", "wo"}) add_dataset(name, weight, H5T_IEEE_F32LE, {width, width});
    });
  };
  make(file, 8);
  make(folder / "wide.h5", 64);
  runfile::Settings settings;
  settings.input.file = file;
  settings.layer.emplace();
  settings.layer->heads = settings.layer->kv_heads = 2;
  const InputFile layer = layer_file(settings, {}, comm);
  test::on_root(comm, [&] { std::filesystem::rename(folder / "wide.h5", file); });
  const Interval rows = share(12, comm);
  std::vector<float> host(12 * 8 + 8 * 8);
  const Rectangle all{{0, 8}, {0, 8}};
  const std::string changed = file + ": changed since the run looked at it first: ";
  EXPECT_EQ(common_error(comm, [&] { layer.read({{"/x", host.data()}}, {rows}, comm); }).find(changed), 0u);
  EXPECT_EQ(common_error(comm,
                         [&] {
                           read_parts(layer.inspected(), {{"/wv", all, all, host.data()}}, comm);
                         })
                .find(changed),
            0u);
}

TEST_F(ChangedFileTest, AChangeBetweenOpeningAndTheLastReadIsFoundToo) {
  const InspectedFile seen = test::inspected_file(comm, path, {"/q"});
  const std::string changed = path + ": changed since the run looked at it first: ";
  const auto change = [&] {
    comm.barrier();  // every rank has looked at the file before it changes
    replace(H5T_IEEE_F32LE, {1, 12, 2, 4});
  };
  EXPECT_EQ(common_error(comm, [&] { comm::agree(comm, [&] { while_unchanged(seen, change); }); }).find(changed), 0u);

  // If a read fails because the file has changed, the error names this cause.
  const InspectedFile again = test::inspected_file(comm, path, {"/q"});
  const auto fail_after_change = [&] {
    change();
    throw comm::AgreedError(core::ErrorKind::failure, "something about HDF5");
  };
  EXPECT_EQ(
      common_error(comm, [&] { comm::agree(comm, [&] { while_unchanged(again, fail_after_change); }); }).find(changed),
      0u);
  const InspectedFile still = test::inspected_file(comm, path, {"/q"});
  const auto fail = [] { throw comm::AgreedError(core::ErrorKind::failure, "something about HDF5"); };
  EXPECT_EQ(common_error(comm, [&] { comm::agree(comm, [&] { while_unchanged(still, fail); }); }),
            "something about HDF5");
}

TEST_F(ChangedFileTest, EveryRankMustFindWhatRank0Finds) {
  const std::string other = folder / "other.h5";
  make_input(comm, other, H5T_IEEE_F32LE, {1, 12, 2, 2, 64});
  const bool last = comm.rank() == comm.size() - 1 && comm.size() > 1;
  if (comm.size() > 1) {
    const std::string message = common_error(comm, [&] { agreed_state(last ? other : path, comm); });
    EXPECT_EQ(message.find(fmt::format("rank {}: {}: is another file here than on rank 0: ", comm.size() - 1, other)),
              0u)
        << message;
  }
  EXPECT_EQ(agreed_state(path, comm), state_of(path));
}

TEST_F(ChangedFileTest, APipeIsNoFileAndNobodyWaitsForIt) {
  const std::string pipe = folder / "pipe";
  test::on_root(comm, [&] { mkfifo(pipe.c_str(), 0600); });
  expect_error(pipe, "is a FIFO, expected an HDF5 file", [&] { tensor_file(settings_for(pipe), comm); });
}

TEST_F(ChangedFileTest, OneThatIsOpenForWritingSaysSo) {
  // HDF5 locks files that it writes to by flock(2). A second descriptor of this process counts as another owner.
  const int descriptor = comm.is_root() ? open(path.c_str(), O_RDONLY) : -1;
  test::on_root(comm, [&] { EXPECT_EQ(flock(descriptor, LOCK_EX | LOCK_NB), 0); });
  expect_error(path, "another process has it open for writing (a notebook? close it there, or use a with block)",
               [&] { tensor_file(settings_for(path), comm); });
  test::on_root(comm, [&] { close(descriptor); });
  EXPECT_NO_THROW(tensor_file(settings_for(path), comm));
}

}  // namespace
}  // namespace annulus::store
