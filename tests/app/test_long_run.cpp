// Runs in units, over several launches: finished units stay finished, and the last launch makes the same file.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>

#include "annulus/app/job/long_run.hpp"
#include "annulus/app/job/run_identity.hpp"
#include "store/hdf5_files.hpp"

namespace annulus::app {
namespace {

using core::StoredTensor;
using test::SharedFolder;

constexpr Index S = 103, H = 2, D = 4, units = 7;

std::string content(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class LongRunTest : public ::testing::Test {
 protected:
  comm::Communicator comm_{MPI_COMM_WORLD};
  SharedFolder folder_{comm_};
  std::string changes_;

  std::string result() const { return folder_ / "out.h5"; }
  Job job(const std::vector<std::string>& overrides = {}) {
    test::on_root(comm_, [&] {
      std::ofstream(folder_ / "run.yaml") << fmt::format(
          "input: {{generate: {{sequence: {}, heads: {}, head_dim: {}}}}}\ndistribution: {{strategy: ring}}\noutput: "
          "{{file: out.h5}}\n",
          S, H, D);
    });
    return make_job({{folder_ / "run.yaml", overrides}, Purpose::run}, comm_);
  }
  static Cuts cuts() { return {"ring", {{"rows", 15}}, {units, 2}}; }
  /// Scratch tensors: units of the first phase write them, units of the second phase read them.
  static std::vector<store::TensorSpec> scratch(const Job& job) {
    return {{"normalizers", core::DType::float32, {1, S, H, 2}, "", core::AxisOrder::bshd, "1"},
            {"entropy", core::lse_type(job.problem.type), {1, S, H}, "", core::AxisOrder::bshd, "1"}};
  }

  static float value(Index row, Index number) { return float(row * H * D + number); }
  static core::RowPiece piece(core::Interval rows, Index numbers, std::vector<float>& memory) {
    memory.resize(std::size_t(rows.size() * H * numbers));
    return {0, rows.begin, 1, rows.size(), {0, H}, memory.data(), H * numbers * 4, numbers * 4};
  }
  /// Computes a unit. The first phase writes `out` and scratch; the second makes `lse` of scratch, half by half.
  static void compute(LongRun& run, const Unit& unit) {
    const core::Interval rows = core::even_part(S, unit.phase == 0 ? units : 2, unit.index);
    std::vector<float> out, lse, normalizers;
    if (unit.phase == 0) {
      const core::RowPiece to = piece(rows, D, out);
      for (Index i = 0; i < Index(out.size()); ++i) out[std::size_t(i)] = value(rows.begin, i);
      run.sink()->write(StoredTensor::out, {to});
      const core::RowPiece scratch = piece(rows, 2, normalizers);
      for (Index i = 0; i < Index(normalizers.size()); ++i) normalizers[std::size_t(i)] = float(rows.begin * H * 2 + i);
      run.sink()->write(StoredTensor::normalizers, {scratch});
      return;
    }
    run.source().wait(run.source().start(StoredTensor::normalizers, {piece(rows, 2, normalizers)}));
    const core::RowPiece to = piece(rows, 1, lse);
    for (std::size_t i = 0; i < lse.size(); ++i) lse[i] = normalizers[2 * i] + normalizers[2 * i + 1];
    run.sink()->write(StoredTensor::lse, {to});
  }
  /// Claims, computes and finishes at most `most` units on this rank; returns how many.
  static Index work(LongRun& run, Index most = 1000) {
    Index done = 0;
    while (done < most) {
      const std::optional<Unit> unit = run.claim();
      if (!unit) break;
      compute(run, *unit);
      run.finish(*unit);
      ++done;
    }
    return done;
  }
  /// A launch that ends after every rank has computed at most one unit.
  void leave_behind_a_unit(const Job& job) {
    {
      LongRun run(job, cuts(), scratch(job), comm_);
      work(run, 1);
    }
    comm_.barrier();
  }
  store::Record record() const { return {"settings: none\n", {}, {{"software", "annulus"}}}; }

  void check_result() {
    test::on_root(comm_, [&] {
      const hid_t file = H5Fopen(result().c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
      ASSERT_GE(file, 0);
      std::vector<float> out(std::size_t(S * H * D)), lse(std::size_t(S * H));
      const auto read = [&](const char* name, std::vector<float>& to) {
        const hid_t dataset = H5Dopen2(file, name, H5P_DEFAULT);
        EXPECT_GE(H5Dread(dataset, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, to.data()), 0);
        H5Dclose(dataset);
      };
      read("out", out);
      read("lse", lse);
      EXPECT_GT(H5Lexists(file, "provenance", H5P_DEFAULT), 0);
      EXPECT_GT(H5Lexists(file, "run", H5P_DEFAULT), 0);
      EXPECT_EQ(H5Lexists(file, "normalizers", H5P_DEFAULT), 0);
      H5Fclose(file);
      for (Index i = 0; i < S * H * D; ++i) ASSERT_EQ(out[std::size_t(i)], value(0, i));
      for (Index i = 0; i < S * H; ++i) ASSERT_EQ(lse[std::size_t(i)], float(4 * i + 1));
      EXPECT_FALSE(std::filesystem::exists(result() + ".part"));
      EXPECT_FALSE(std::filesystem::exists(result() + ".journal"));
    });
  }
};

TEST_F(LongRunTest, AllRanksTogetherMakeAllUnitsOnce) {
  const Job job = this->job();
  EXPECT_FALSE(recorded_cuts(job, false, comm_).has_value());
  {
    LongRun run(job, cuts(), scratch(job), comm_);
    EXPECT_EQ(run.found_finished(), 0);
    EXPECT_EQ(comm_.sum(work(run)), units + 2);
    EXPECT_EQ(comm_.max(run.finished_share()), 1.0);
    EXPECT_TRUE(run.complete([&] { return record(); }));
  }
  check_result();
}

TEST_F(LongRunTest, UnitAfterUnitByAllRanks) {
  const Job job = this->job();
  LongRun run(job, cuts(), scratch(job), comm_);
  std::vector<Unit> made;
  while (const std::optional<Unit> unit = run.claim_together()) {
    made.push_back(*unit);
    if (comm_.is_root()) compute(run, *unit);
    run.finish_together(*unit);
  }
  EXPECT_EQ(Index(made.size()), units + 2);
  EXPECT_TRUE(run.complete([&] { return record(); }));
  check_result();
}

TEST_F(LongRunTest, GoesOnWhereItWasLeft) {
  const Job job = this->job();
  Index before = 0;
  {
    LongRun run(job, cuts(), scratch(job), comm_);
    before = comm_.sum(work(run, 1));
  }
  for (int launch = 0;; ++launch) {
    comm_.barrier();
    const std::optional<Cuts> found = recorded_cuts(job, false, comm_);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->strategy, "ring");
    EXPECT_EQ(found->numbers, cuts().numbers);
    EXPECT_EQ(found->phases, cuts().phases);
    LongRun run(job, *found, scratch(job), comm_);
    EXPECT_EQ(comm_.max(run.found_finished()), before);
    ASSERT_LT(launch, 20);
    before += comm_.sum(work(run, comm_.is_root() ? 1 : 0));
    if (before < units + 2) {
      EXPECT_FALSE(run.complete([&] { return record(); }));
      EXPECT_FALSE(run.is_stopped());
      continue;
    }
    EXPECT_TRUE(run.complete([&] { return record(); }));
    break;
  }
  check_result();
}

TEST_F(LongRunTest, AResultThatWasMadeButNotSaidIsFound) {
  const Job job = this->job();
  for (const bool has_both_names : {false, true}) {
    std::string journal;
    {
      LongRun run(job, cuts(), scratch(job), comm_);
      comm_.sum(work(run));
      EXPECT_TRUE(run.complete([&] {
        if (comm_.is_root()) journal = content(result() + ".journal");
        return record();
      }));
    }
    // Leaves what a launch leaves that is killed after it has renamed the result and before it removes the journal; or,
    // on a file system without RENAME_NOREPLACE, before it removes the old name.
    test::on_root(comm_, [&] {
      std::ofstream(result() + ".journal") << journal;
      if (has_both_names) std::filesystem::create_hard_link(result(), result() + ".part");
    });
    {
      const std::optional<Cuts> found = recorded_cuts(job, false, comm_);
      ASSERT_TRUE(found.has_value());
      LongRun run(job, *found, scratch(job), comm_);
      EXPECT_FALSE(run.claim().has_value());
      EXPECT_TRUE(run.complete([&] { return record(); }));
    }
    check_result();
    test::on_root(comm_, [&] { std::filesystem::remove(result()); });
  }
}

/// If a launch is killed while HDF5 completes the file, the next one completes it anew, whatever HDF5 had written.
TEST_F(LongRunTest, ACompletionThatWasCutOffIsDoneAgain) {
  const Job job = this->job();
  {
    LongRun run(job, cuts(), scratch(job), comm_);
    work(run);
  }
  test::on_root(comm_, [&] {
    std::fstream part(result() + ".part", std::ios::in | std::ios::out | std::ios::binary);
    part.write("garbage garbage garbage", 20);  // where HDF5's signature was
    part.seekp(0, std::ios::end);
    part.write("more", 4);
  });
  {
    LongRun run(job, cuts(), scratch(job), comm_);
    EXPECT_EQ(run.found_finished(), units + 2);
    EXPECT_TRUE(run.complete([&] { return record(); }));
  }
  check_result();
}

TEST_F(LongRunTest, OtherSettingsAreRefusedUntilItIsForgotten) {
  {
    const Job job = this->job();
    LongRun run(job, cuts(), scratch(job), comm_);
    work(run, 1);
  }
  comm_.barrier();
  const Job other = job({"attention.causal=false"});
  const std::string error = test::common_error(comm_, [&] { recorded_cuts(other, false, comm_); });
  EXPECT_NE(error.find("attention.causal: true -> false"), std::string::npos) << error;
  EXPECT_NE(error.find("--restart"), std::string::npos) << error;
  const Job strategy = job({"distribution.strategy=rotation"});
  EXPECT_NE(test::common_error(comm_, [&] { recorded_cuts(strategy, false, comm_); }).find("ring -> rotation"),
            std::string::npos);
  EXPECT_FALSE(recorded_cuts(other, true, comm_).has_value());
  comm_.barrier();
  EXPECT_TRUE(std::filesystem::exists(result() + ".part")) << "the new run may still be refused";
  comm_.barrier();  // rank 0 may remove the file only after all ranks have looked
  forget_earlier(other, comm_);
  EXPECT_FALSE(std::filesystem::exists(result() + ".part"));
  EXPECT_FALSE(std::filesystem::exists(result() + ".journal"));
}

/// Launches that begin together find no journal. The first may then begin a run with other settings, or other cuts.
TEST_F(LongRunTest, WhatAnotherLaunchHasBegunMeanwhileIsNotTakenForOurs) {
  const Job job = this->job(), other = this->job({"attention.causal=false"});
  LongRun run(job, cuts(), scratch(job), comm_);
  const std::string error = test::common_error(comm_, [&] { LongRun(other, cuts(), scratch(other), comm_); });
  EXPECT_NE(error.find("attention.causal: true -> false"), std::string::npos) << error;
  Cuts finer = cuts();
  finer.phases[0] = units + 1;
  EXPECT_THROW(LongRun(job, finer, scratch(job), comm_), AnotherLaunchBegan);
  EXPECT_EQ(comm_.sum(work(run)), units + 2);
  EXPECT_TRUE(run.complete([&] { return record(); }));
  check_result();
}

/// A job has resolved compute.precision: auto, its request has not. Both know compute.reproducible.
TEST_F(LongRunTest, WhatAJobDecidesIsNoOtherSettingOfTheRequest) {
  const Job job = this->job({"compute.reproducible=true"});
  ASSERT_TRUE(job.problem.reproducible);
  leave_behind_a_unit(job);
  const auto request = [&](const std::string& bits) {
    return read_request({folder_ / "run.yaml", {"compute.reproducible=" + bits}}, Purpose::run, comm_);
  };
  const Request same = request("true"), other = request("false");
  ASSERT_FALSE(same.run.settings.compute.precision.has_value()) << "auto is resolved: nothing is tested";
  ASSERT_TRUE(recorded_cuts(same, false, comm_).has_value());
  const Job again = make_job(same, JobOptions{{}, Purpose::run}, comm_);
  { const LongRun continued(again, cuts(), scratch(again), comm_); }
  const std::string error = test::common_error(comm_, [&] { recorded_cuts(other, false, comm_); });
  EXPECT_NE(error.find("compute.reproducible: \"true\" -> \"false\""), std::string::npos) << error;
}

TEST_F(LongRunTest, AnUnfinishedFileIsNoResultUnderWhateverName) {
  const Job job = this->job();
  leave_behind_a_unit(job);
  const std::string part = result() + ".part";
  const auto error = [&] { return test::common_error(comm_, [&] { LongRun(job, cuts(), scratch(job), comm_); }); };
  const auto rename = [&](const std::string& from, const std::string& to) {
    test::on_root(comm_, [&] { std::filesystem::rename(from, to); });
  };
  rename(part, result());
  EXPECT_NE(error().find("unfinished"), std::string::npos) << error();
  rename(result(), result() + ".elsewhere");
  EXPECT_NE(error().find(part + ": is gone"), std::string::npos) << error();
  rename(result() + ".elsewhere", part);
  LongRun run(job, cuts(), scratch(job), comm_);
  comm_.sum(work(run));
  EXPECT_TRUE(run.complete([&] { return record(); }));
  check_result();
}

/// Without this check, the missing end of the file would be read as zeros.
TEST_F(LongRunTest, AFileThatWasCutShortIsNotTaken) {
  const Job job = this->job();
  leave_behind_a_unit(job);
  const std::string part = result() + ".part";
  test::on_root(comm_,
                [&] { std::filesystem::resize_file(part, std::filesystem::file_size(part) - 10000); });  // cuts scratch
  const std::string error = test::common_error(comm_, [&] { LongRun(job, cuts(), scratch(job), comm_); });
  EXPECT_NE(error.find("was cut short"), std::string::npos) << error;
}

/// A line with a right checksum may still be wrong: the error names the journal, and --restart removes it.
TEST_F(LongRunTest, AJournalWhoseLayoutIsDamagedIsForgotten) {
  const Job job = this->job();
  leave_behind_a_unit(job);
  const std::string part = result() + ".part", path = result() + ".journal";
  test::on_root(comm_, [&] {
    store::Journal journal(path);
    store::Journal::Lock(journal).write("part {\"inode\": 3");
  });
  const std::string error = test::common_error(comm_, [&] { LongRun(job, cuts(), scratch(job), comm_); });
  EXPECT_NE(error.find(path + ": the layout of the .part file in it is damaged"), std::string::npos) << error;
  EXPECT_NE(error.find("--restart"), std::string::npos) << error;
  EXPECT_FALSE(recorded_cuts(job, true, comm_).has_value());
  forget_earlier(job, comm_);
  for (const std::string& file : {part, path}) EXPECT_FALSE(std::filesystem::exists(file)) << file;
  LongRun run(job, cuts(), scratch(job), comm_);
  EXPECT_EQ(run.found_finished(), 0);
  comm_.sum(work(run));
  EXPECT_TRUE(run.complete([&] { return record(); }));
  check_result();
}

TEST_F(LongRunTest, ARunThatIsAtWorkIsNotForgotten) {
  const Job job = this->job();
  LongRun run(job, cuts(), scratch(job), comm_);
  const std::string error = test::common_error(comm_, [&] { forget_earlier(job, comm_); });
  EXPECT_NE(error.find("works on it"), std::string::npos) << error;
}

/// The head of a journal may have a right checksum, but cuts that no run can have.
TEST(Cuts, ThatCannotBeAreRefused) {
  const auto text = [](const std::string& strategy, const std::string& numbers, const std::string& phases) {
    return fmt::format(R"({{"cuts": {{"strategy": "{}", "numbers": {}, "phases": {}}}}})", strategy, numbers, phases);
  };
  EXPECT_EQ(cuts_of(text("stream", R"({"block_rows": 8})", "[3, 2]"), ""),
            (Cuts{"stream", {{"block_rows", 8}}, {3, 2}}));
  for (const std::string& bad :
       {text("stream", R"({"block_rows": 0})", "[3]"), text("stream", "{}", "[3]"),
        text("ring", R"({"kv_heads": -1})", "[3]"), text("ring", R"({"partition": 99})", "[3]"),
        text("ring", "{}", "[]"), text("ring", "{}", "[0]"), text("ring", "{}", "[9000000000000000000]"),
        text("ring", "3", "[3]"), std::string("{}"), std::string("["), std::string(100000, '[')}) {
    try {
      cuts_of(bad, "x.journal");
      ADD_FAILURE() << bad.substr(0, 100);
    } catch (const core::Error& error) {
      EXPECT_EQ(std::string(error.what()).find("x.journal: the head of this journal is damaged"), 0u) << error.what();
    }
  }
}

TEST_F(LongRunTest, FilesInTheWayAreLeftAlone) {
  const Job job = this->job();
  const std::string part = result() + ".part";
  test::on_root(comm_, [&] { std::ofstream(part) << "mine"; });
  EXPECT_NE(test::common_error(comm_, [&] { LongRun(job, cuts(), scratch(job), comm_); }).find("is in the way"),
            std::string::npos);
  test::on_root(comm_, [&] {
    EXPECT_EQ(content(part), "mine");
    std::filesystem::remove(part);
    std::filesystem::remove(result() + ".journal");
    std::ofstream(result()) << "a result";
  });
  EXPECT_NE(test::common_error(comm_, [&] { LongRun(job, cuts(), scratch(job), comm_); }).find("exists already"),
            std::string::npos);
}

TEST_F(LongRunTest, APartFileThatWasReplacedIsNotTaken) {
  const Job job = this->job();
  leave_behind_a_unit(job);
  test::on_root(comm_, [&] {
    std::filesystem::copy_file(result() + ".part", result() + ".copy");
    std::filesystem::rename(result() + ".copy", result() + ".part");
  });
  const std::string error = test::common_error(comm_, [&] { LongRun(job, cuts(), scratch(job), comm_); });
  EXPECT_NE(error.find("is not the file that this run laid out"), std::string::npos) << error;
}

}  // namespace
}  // namespace annulus::app
