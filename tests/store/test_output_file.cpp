// Output files: what was written is read back with the same bits, and an unfinished file never has the final name of
// the output.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "annulus/core/random.hpp"
#include "annulus/store/files/file_system.hpp"
#include "annulus/store/generated.hpp"
#include "annulus/store/output_file.hpp"
#include "store/hdf5_files.hpp"
#include "store/output_case.hpp"
#include "store/tensor_inputs.hpp"
#include "support/file_size_limit.hpp"

namespace annulus::store {
namespace {

using core::DType;
using core::Interval;
using core::Shape;
using core::TensorId;
using test::common_error;
using test::FileSizeLimit;
using test::SharedFolder;

/// A communicator of the first `size` ranks. Every other rank has a communicator of itself alone.
class FirstRanks {
 public:
  FirstRanks(const comm::Communicator& all, int size) {
    member = all.rank() < size;
    MPI_Comm_split(all.handle(), member ? 0 : 1 + all.rank(), all.rank(), &handle_);
    comm = std::make_unique<comm::Communicator>(handle_);
  }
  ~FirstRanks() {
    comm.reset();
    MPI_Comm_free(&handle_);
  }
  bool member = false;
  std::unique_ptr<comm::Communicator> comm;

 private:
  MPI_Comm handle_ = MPI_COMM_NULL;
};

std::vector<std::byte> made(const runfile::GenerateSettings& what, TensorId tensor, const std::vector<Interval>& rows) {
  Index count = 0;
  for (const Interval& interval : rows) count += interval.size();
  const Index heads = tensor == TensorId::q ? what.shape.heads : what.shape.kv_heads;
  std::vector<std::byte> bytes(std::size_t(what.shape.batch * count * heads * what.shape.head_dim) *
                               core::bytes_of(what.type));
  fill_tensor(what.seed, generated(what, tensor), rows, bytes.data());
  return bytes;
}

/// Writes q, k, v of `what` with the ranks of `comm`.
void write_input(const std::string& path, const runfile::GenerateSettings& what, const comm::Communicator& comm) {
  const Shape& s = what.shape;
  OutputFile file(output_plan({path, false}, {tensor_spec("q", what.type, s), tensor_spec("k", what.type, s),
                                              tensor_spec("v", what.type, s)}),
                  comm);
  const std::vector<Interval> rows = dealt(s.sequence, 4, comm);
  const auto q = made(what, TensorId::q, rows), k = made(what, TensorId::k, rows), v = made(what, TensorId::v, rows);
  file.write({{"q", q.data()}, {"k", k.data()}, {"v", v.data()}}, rows, owners(s.sequence, 4, comm));
  file.publish({});
}

TEST(OutputFile, WrittenByThreeRanksAndReadByTwo) {
  const comm::Communicator all(MPI_COMM_WORLD);
  const SharedFolder folder(all);
  for (const DType type : core::all_dtypes) {
    const std::string path = folder / (std::string(core::name_of(type)) + ".h5");
    const runfile::GenerateSettings what{{2, 29, 4, 2, 5}, type, 11};
    const FirstRanks three(all, 3);
    if (three.member) write_input(path, what, *three.comm);
    all.barrier();
    const FirstRanks two(all, 2);
    if (!two.member) continue;
    runfile::InputSettings input;
    input.file = path;
    const InputFile file = tensor_file(input, *two.comm);
    EXPECT_EQ(file.shape(), what.shape);
    EXPECT_EQ(file.type(), type);
    const std::vector<Interval> rows = dealt(29, 15, *two.comm);
    const auto q = made(what, TensorId::q, rows), v = made(what, TensorId::v, rows);
    std::vector<std::byte> found_q(q.size()), found_v(v.size());
    file.read({{"/q", found_q.data()}, {"/v", found_v.data()}}, rows, *two.comm);
    EXPECT_EQ(found_q, q) << core::name_of(type);  // every bit
    EXPECT_EQ(found_v, v) << core::name_of(type);
  }
}

TEST(OutputFile, RanksWithoutRows) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  const SharedFolder folder(comm);
  const Shape shape{1, 1, 1, 1, 3};  // one row: only one rank has a row
  const std::string path = folder / "out.h5";
  OutputFile file(output_plan({path, false},
                              {tensor_spec("out", DType::float32, shape), tensor_spec("lse", DType::float32, shape)}),
                  comm);
  const std::vector<float> out{1, 2, 3};
  const float lse = 4;
  const bool last = comm.rank() == comm.size() - 1;
  pattern::Partition last_has_all{std::size_t(comm.size())};
  last_has_all.back() = pattern::StoredRows({{0, 1}});
  const std::vector<Interval> rows = last ? std::vector<Interval>{{0, 1}} : std::vector<Interval>{};
  file.write({{"out", last ? out.data() : nullptr}, {"lse", last ? &lse : nullptr}}, rows, RowOwners(last_has_all));
  file.publish({});
  std::vector<float> found(3);
  float found_lse = 0;
  const InspectedFile seen = test::inspected_file(comm, path, {"out", "lse"});
  read_rows(seen, {"out", found.data()}, {{0, 1}});
  read_rows(seen, {"lse", &found_lse}, {{0, 1}});
  EXPECT_EQ(found, out);
  EXPECT_EQ(found_lse, lse);
}

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

const Shape small{1, 64, 2, 2, 32};
const std::vector<TensorSpec> small_specs{tensor_spec("out", DType::float32, small)};  // 16 KiB
std::vector<float> small_rows(const std::vector<Interval>& rows) {
  Index count = 0;
  for (const Interval& interval : rows) count += interval.size();
  return std::vector<float>(std::size_t(count * 64), 1.5f);
}

TEST(OutputFile, IsASideUntilItIsFinished) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  const SharedFolder folder(comm);
  const std::string path = folder / "out.h5";
  using Names = std::vector<std::string>;
  {
    OutputFile file(output_plan({path, false}, small_specs), comm);
    const Names aside = names_in(folder / "");  // before anything is computed
    EXPECT_EQ(aside, (Names{"out.h5.journal", "out.h5.part"}));
    const auto rows = dealt(64, 16, comm);
    file.write({{"out", small_rows(rows).data()}}, rows, owners(64, 16, comm));
    EXPECT_EQ(names_in(folder / ""), aside);
    comm.barrier();
    file.publish({});
    EXPECT_EQ(names_in(folder / ""), Names{"out.h5"});
  }
  EXPECT_EQ(names_in(folder / ""), Names{"out.h5"});
  comm.barrier();
}

TEST(OutputFile, LeavesNothingWhenItIsNotFinished) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  const SharedFolder folder(comm);
  try {
    const OutputFile file(output_plan({folder / "out.h5", true}, small_specs), comm);
    EXPECT_EQ(names_in(folder / "").size(), 2u);
    comm.barrier();
    throw 1;
  } catch (int) {
  }
  comm.barrier();
  EXPECT_TRUE(names_in(folder / "").empty());
}

TEST(OutputFile, FindsABadPlaceBeforeTheComputation) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  const SharedFolder folder(comm);
  test::on_root(comm, [&] {
    std::ofstream(folder / "taken.h5") << "precious";
    std::filesystem::create_directory(folder / "folder.h5");
    std::filesystem::create_symlink(folder / "nowhere", folder / "dangling.h5");
  });
  const auto error = [&](const std::string& path, bool overwrite, const std::vector<TensorSpec>& specs) {
    return common_error(comm, [&] { OutputFile(output_plan({path, overwrite}, specs), comm); });
  };
  std::string path = folder / "missing/out.h5";
  EXPECT_EQ(error(path, false, small_specs), path + ": the output folder " + (folder / "missing") + " does not exist");
  path = folder / "taken.h5/out.h5";
  EXPECT_EQ(error(path, true, small_specs), path + ": the output folder " + (folder / "taken.h5") + " is not a folder");
  path = folder / "folder.h5";
  EXPECT_EQ(error(path, true, small_specs), path + ": is a folder, expected a file");
  path = folder / "taken.h5";
  EXPECT_EQ(error(path, false, small_specs),
            path +
                ": the output exists already; set output.overwrite: true (generate, plan --calibrate: --overwrite) or "
                "name another file");
  const Shape huge{1, Index(1) << 44, 1, 1, 64};  // 4 PiB, and a dimension scale of 16 TiB
  path = folder / "huge.h5";
  const std::string message = error(path, false, {tensor_spec("out", DType::float32, huge)});
  EXPECT_EQ(message.find(path + ".part: needs 45"), 0u) << message;
  EXPECT_EQ(content_of(folder / "taken.h5"), "precious");
  EXPECT_EQ(names_in(folder / "").size(), 3u);  // no temporary file is left
  comm.barrier();
}

TEST(OutputFile, OverwritesAtTheVeryEnd) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  const SharedFolder folder(comm);
  const std::string path = folder / "out.h5";
  test::on_root(comm, [&] { std::ofstream(path) << "precious"; });
  const auto rows = dealt(64, 16, comm);
  {
    OutputFile given_up(output_plan({path, true}, small_specs), comm);
    given_up.write({{"out", small_rows(rows).data()}}, rows, owners(64, 16, comm));
  }
  comm.barrier();
  EXPECT_EQ(content_of(path), "precious");
  comm.barrier();
  OutputFile file(output_plan({path, true}, small_specs), comm);
  file.write({{"out", small_rows(rows).data()}}, rows, owners(64, 16, comm));
  EXPECT_EQ(content_of(path), "precious");
  comm.barrier();
  file.publish({});
  EXPECT_EQ(look_at_dataset(path, "out").extents, (std::vector<Index>{1, 64, 2, 32}));
}

TEST(OutputFile, AFileThatCameMeanwhileIsNotReplacedAndTheResultIsKept) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  const SharedFolder folder(comm);
  const std::string path = folder / "out.h5";
  std::string message;
  {
    OutputFile file(output_plan({path, false}, small_specs), comm);
    const auto rows = dealt(64, 16, comm);
    file.write({{"out", small_rows(rows).data()}}, rows, owners(64, 16, comm));
    test::on_root(comm, [&] { std::ofstream(path) << "precious"; });
    message = common_error(comm, [&] { file.publish({}); });
  }
  comm.barrier();
  const std::string kept_as = "; the finished file is kept as " + path + ".kept.";
  EXPECT_EQ(message.find(path + ": the output exists already; "), 0u) << message;
  ASSERT_NE(message.find(kept_as), std::string::npos) << message;
  EXPECT_EQ(content_of(path), "precious");
  EXPECT_EQ(names_in(folder / "").size(), 2u);
  const std::string kept = message.substr(message.find(kept_as) + kept_as.size() - (path + ".kept.").size());
  std::vector<float> found(64 * 64);
  read_rows(test::inspected_file(comm, kept, {"out"}), {"out", found.data()}, {{0, 64}});
  EXPECT_EQ(found, std::vector<float>(64 * 64, 1.5f));  // all of it
  comm.barrier();
}

TEST(OutputFile, AnExchangedPartFileIsNotWrittenNorRemoved) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  const SharedFolder folder(comm);
  const std::string path = folder / "out.h5", part = path + ".part";
  const auto rows = dealt(64, 16, comm);
  for (const bool by_a_link : {false, true}) {
    {
      OutputFile file(output_plan({path, true}, small_specs), comm);
      test::on_root(comm, [&] {
        std::filesystem::rename(part, folder / "stolen");
        std::ofstream(folder / "victim") << "precious";
        if (by_a_link) std::filesystem::create_symlink(folder / "victim", part);
        if (!by_a_link) std::ofstream(part) << "precious";
      });
      file.write({{"out", small_rows(rows).data()}}, rows, owners(64, 16, comm));
      const std::string message = common_error(comm, [&] { file.publish({}); });
      EXPECT_EQ(message, part + ": was removed, renamed or replaced while the run wrote it");
      EXPECT_FALSE(std::filesystem::exists(path));
    }
    comm.barrier();
    EXPECT_EQ(content_of(folder / "victim"), "precious");
    EXPECT_EQ(content_of(part), "precious") << "not ours to remove";
    test::on_root(comm, [&] {
      for (const std::string& name : names_in(folder / "")) std::filesystem::remove(folder / name);
    });
  }
}

/// A child process begins to make the same file, and ends without cleaning up.
void begin_and_vanish(const std::string& path) {
  const pid_t child = fork();
  if (child == 0) {
    const comm::Communicator alone;
    const OutputFile file(output_plan({path, true}, small_specs), alone);
    _exit(0);  // destructors do not run, so part file and journal stay
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
}

TEST(OutputFile, OneAtATimeAndADeadOwnersIsTakenOver) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  const SharedFolder folder(comm);
  const std::string path = folder / "out.h5";
  const auto rows = dealt(64, 16, comm);
  test::on_root(comm, [&] { begin_and_vanish(path); });
  EXPECT_EQ(names_in(folder / "").size(), 2u);
  comm.barrier();
  OutputFile file(output_plan({path, false}, small_specs), comm);
  for (const bool overwrite : {false, true}) {
    const std::string message = common_error(comm, [&] {
      OutputFile(output_plan({path, overwrite}, small_specs), comm);
    });
    EXPECT_EQ(message.find(path + ": another run makes this output already: process "), 0u) << message;
  }
  file.write({{"out", small_rows(rows).data()}}, rows, owners(64, 16, comm));
  file.publish({});
  EXPECT_EQ(names_in(folder / ""), std::vector<std::string>{"out.h5"});
  comm.barrier();
}

TEST(OutputFile, ARefusedLaunchRemovesWhatAKilledOneLeft) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  const SharedFolder folder(comm);
  const std::string path = folder / "out.h5";
  test::on_root(comm, [&] {
    begin_and_vanish(path);
    std::ofstream(path) << "an earlier result";
  });
  const std::string message = common_error(comm, [&] { OutputFile(output_plan({path, false}, small_specs), comm); });
  EXPECT_NE(message.find("exists already"), std::string::npos) << message;
  EXPECT_EQ(names_in(folder / ""), std::vector<std::string>{"out.h5"}) << "a part file without a journal is in the way";
  comm.barrier();
}

TEST(OutputFile, APartFileWithoutAJournalIsInTheWay) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  const SharedFolder folder(comm);
  const std::string path = folder / "out.h5";
  test::on_root(comm, [&] { std::ofstream(path + ".part") << "precious"; });
  const std::string message = common_error(comm, [&] { OutputFile(output_plan({path, true}, small_specs), comm); });
  EXPECT_EQ(message.find(path + ".part: is in the way"), 0u) << message;
  EXPECT_EQ(names_in(folder / ""), std::vector<std::string>{"out.h5.part"}) << "no journal stays";
  EXPECT_EQ(content_of(path + ".part"), "precious");
  comm.barrier();
}

TEST(OutputFile, FollowsALink) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  const SharedFolder folder(comm);
  test::on_root(comm, [&] {
    std::filesystem::create_directory(folder / "scratch");
    std::ofstream(folder / "scratch/real.h5") << "old";
    std::filesystem::create_symlink(folder / "scratch/real.h5", folder / "out.h5");
  });
  OutputFile(output_plan({folder / "out.h5", true}, small_specs), comm).publish({});
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "out.h5"));
  EXPECT_EQ(look_at_dataset(folder / "scratch/real.h5", "out").type, DType::float32);
  comm.barrier();
}

TEST(OutputFile, ReservesItsSpaceBeforeTheComputation) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  const SharedFolder folder(comm);
  const FileSizeLimit limit(8192);
  const std::string path = folder / "out.h5";
  const std::string message = common_error(comm, [&] { OutputFile(output_plan({path, false}, small_specs), comm); });
  EXPECT_EQ(message.find(path), 0u) << message;
  EXPECT_TRUE(names_in(folder / "").empty());
  comm.barrier();
}

}  // namespace
}  // namespace annulus::store
