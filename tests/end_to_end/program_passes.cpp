// Runs that need more than compute.memory_limit, through the program: in passes over batch entries and heads they give
// the same bits as a run at once. Also tested: what is printed about passes, and errors.
#include <nlohmann/json.hpp>

#include "program.hpp"
#include "results.hpp"

namespace annulus::test {
namespace {

const char* const deck = R"(
input: {file: in.h5}
attention: {segments: [16, 64, all], dilations: [1, 3, 5]}
compute: {backward: true}
distribution: {strategy: ring}
output: {file: whole.h5, overwrite: true, report: report.json}
)";

class Passes : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    write("run.yaml", deck);
    ASSERT_EQ(
        annulus(0, "generate --output in.h5 --sequence 1501 --heads 6 --kv-heads 3 --head-dim 16 --batch 3 --dout")
            .status,
        0);
  }
  std::vector<double> result(const std::string& file, const std::string& dataset) const {
    return numbers(folder / file, dataset);
  }
  double passes() const { return nlohmann::json::parse(slurp(folder / "report.json"))["passes"]; }

  /// Runs at once, then in passes because of the limit: the bits must be the same, and the memory within the limit.
  void expect_same(int ranks, const std::string& limit, const std::string& set = "",
                   const std::vector<std::string>& datasets = {"out", "lse", "dq", "dk", "dv"}) const {
    const Outcome whole = annulus(ranks, "run run.yaml" + set);
    ASSERT_EQ(whole.status, 0) << whole.err;
    EXPECT_EQ(passes(), 1);
    const std::string cut = " --set output.file=cut.h5 --set compute.memory_limit=" + limit;
    const Outcome ran = annulus(ranks, "run run.yaml" + set + cut);
    ASSERT_EQ(ran.status, 0) << ran.err;
    EXPECT_GT(passes(), 1);
    EXPECT_NE(ran.out.find("\n  passes "), std::string::npos) << ran.out;
    for (const std::string& name : datasets) EXPECT_EQ(result("whole.h5", name), result("cut.h5", name)) << name;
    const double most = std::stod(limit.substr(0, limit.find('K'))) * 1024;
    for (const char* pass : {"/run/peak_bytes", "/run/backward/peak_bytes"}) {
      for (const double peak : result("cut.h5", pass)) EXPECT_LE(peak, most) << pass;
    }
    EXPECT_FALSE(exists("cut.h5.part"));
    EXPECT_FALSE(exists("cut.h5.journal"));
  }
};

TEST_F(Passes, MakeTheBitsOfTheRunAtOnce) {
  expect_same(1, "5000KiB");
  expect_same(2, "3000KiB", " --set output.type=float64");
  expect_same(3, "2000KiB", " --set \"output.statistics=[entropy, received, top]\"",
              {"out", "lse", "dq", "dk", "dv", "entropy", "received", "top_rows", "top_weights"});
}

TEST_F(Passes, ReadDocumentsAndOtherOrdersAndChunks) {
  // other.h5 has the tensors as (B, H, S, D) in chunks, and the offsets of packed documents.
  const hid_t in = H5Fopen((folder / "in.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t out = H5Fcreate((folder / "other.h5").c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  for (const auto& [name, heads] : {std::pair("q", 6), {"k", 3}, {"v", 3}, {"dout", 6}}) {
    const std::vector<double> from = numbers(folder / "in.h5", name);
    std::vector<float> to(from.size());
    for (std::size_t i = 0; i < from.size(); ++i) {
      const std::size_t d = i % 16, h = i / 16 % std::size_t(heads), row = i / 16 / std::size_t(heads);
      const std::size_t b = row / 1501, s = row % 1501;
      to[((b * std::size_t(heads) + h) * 1501 + s) * 16 + d] = float(from[i]);
    }
    const hsize_t extents[4] = {3, hsize_t(heads), 1501, 16}, chunk[4] = {1, 1, 400, 16};
    const hid_t space = H5Screate_simple(4, extents, nullptr), how = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(how, 4, chunk);
    H5Pset_fletcher32(how);
    const hid_t data = H5Dcreate2(out, name, H5T_IEEE_F32LE, space, H5P_DEFAULT, how, H5P_DEFAULT);
    EXPECT_GE(H5Dwrite(data, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, to.data()), 0);
    H5Dclose(data);
    H5Pclose(how);
    H5Sclose(space);
  }
  const long long offsets[] = {0, 400, 407, 1501};
  const hsize_t four = 4;
  const hid_t space = H5Screate_simple(1, &four, nullptr);
  const hid_t data = H5Dcreate2(out, "documents", H5T_STD_I64LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  EXPECT_GE(H5Dwrite(data, H5T_NATIVE_LLONG, H5S_ALL, H5S_ALL, H5P_DEFAULT, offsets), 0);
  H5Dclose(data);
  H5Sclose(space);
  H5Fclose(out);
  H5Fclose(in);
  expect_same(2, "3000KiB", " --set input.file=other.h5 --set input.axes=bhsd --set input.documents=/documents");
  EXPECT_EQ(annulus(1,
                    "verify run.yaml --set input.file=other.h5 --set input.axes=bhsd --set "
                    "input.documents=/documents --set output.file=cut.h5 --set compute.memory_limit=3000KiB")
                .status,
            0);
}

TEST_F(Passes, AreShownBeforehand) {
  const std::string limit = " --set compute.memory_limit=2000KiB";
  const Outcome dry = annulus(0, "run --dry-run --ranks 3 run.yaml" + limit);
  EXPECT_EQ(dry.status, 0) << dry.err;
  EXPECT_NE(dry.out.find("# passes over the input: "), std::string::npos) << dry.out;
  EXPECT_NE(dry.out.find("(compute.memory_limit)"), std::string::npos) << dry.out;
  const Outcome of_rank = annulus(0, "run --dry-run --ranks 3 --rank 1 run.yaml" + limit);
  EXPECT_NE(of_rank.out.find("# passes over the input: "), std::string::npos) << "its numbers are for one pass";
  const Outcome plan = annulus(0, "plan --ranks 3 run.yaml" + limit);
  EXPECT_EQ(plan.status, 0) << plan.err;
  EXPECT_NE(plan.out.find("auto takes "), std::string::npos);
  EXPECT_NE(plan.out.find(" passes of "), std::string::npos) << plan.out;
  EXPECT_NE(plan.out.find(" x "), std::string::npos) << plan.out;
  const Outcome enough = annulus(0, "run --dry-run --ranks 3 run.yaml --set compute.memory_limit=1GiB");
  EXPECT_EQ(enough.out.find("passes over the input"), std::string::npos);
}

TEST_F(Passes, WithoutAFileOnlyTime) {
  const Outcome ran = annulus(2, "run run.yaml --set output.file=none --set compute.memory_limit=3000KiB");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_GT(passes(), 1);
  EXPECT_EQ(files(), (std::vector<std::string>{"in.h5", "report.json", "run.yaml"}));
}

TEST_F(Passes, SayWhatIsMissingWhereNotOneHeadFits) {
  const Outcome ran = annulus(2, "run run.yaml --set compute.memory_limit=64KiB");
  EXPECT_EQ(ran.status, 2);
  for (const char* word :
       {"compute.memory_limit: ", "strategy ring needs ", "9 passes", "64.0 KiB", "strategy stream", "more ranks"}) {
    EXPECT_NE(ran.err.find(word), std::string::npos) << word << ": " << ran.err;
  }
  const Outcome bench = annulus(2,
                                "bench run.yaml --set \"bench.sweep=[{distribution.strategy: [ring]}]\" --set "
                                "bench.file=sweep.h5 --set compute.memory_limit=3000KiB");
  EXPECT_EQ(bench.status, 2);
  EXPECT_NE(bench.err.find("passes, and bench computes all at once"), std::string::npos) << bench.err;
  EXPECT_EQ(files(), (std::vector<std::string>{"in.h5", "run.yaml"})) << "nothing was begun";
}

TEST_F(Passes, AreTheSmallestWhereNotEvenTheseSeemToFit) {
  ASSERT_EQ(setenv("SLURM_MEM_PER_NODE", "1", 1), 0);  // MiB; as sbatch --mem=1M: an estimate of what is free
  const Outcome dry = annulus(0, "run --dry-run run.yaml"), ran = annulus(0, "run run.yaml");
  unsetenv("SLURM_MEM_PER_NODE");
  EXPECT_NE(dry.out.find("# passes over the input: 9, of 1 batch entry and 1 key/value head each"), std::string::npos)
      << dry.out;
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_NE(ran.err.find("annulus: warning: run.yaml"), std::string::npos) << ran.err;
  EXPECT_EQ(passes(), 9);
}

TEST_F(Passes, OfAFolderWhoseNameIsNotUtf8AreComputed) {
  const std::filesystem::path other = folder / "caf\xe9";
  std::filesystem::create_directory(other);
  for (const char* name : {"in.h5", "run.yaml"}) std::filesystem::rename(folder / name, other / name);
  const std::string limit = "run 'caf\xe9/run.yaml' --set compute.memory_limit=3000KiB";
  EXPECT_EQ(annulus(2, limit).status, 0);
  EXPECT_TRUE(std::filesystem::exists(other / "whole.h5"));
}

TEST_F(Passes, WriteTheirReportWhereALinkLeads) {
  std::filesystem::create_directory(folder / "there");
  std::filesystem::create_symlink("there/real.json", folder / "report.json");
  ASSERT_EQ(annulus(1, "run run.yaml --set compute.memory_limit=3000KiB").status, 0);
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "report.json"));
  EXPECT_GT(passes(), 1);
}

TEST_F(Passes, TellWhatWasReadAndWritten) {
  ASSERT_EQ(annulus(2, "run run.yaml").status, 0);
  double read = 0, written = 0;
  for (const double bytes : result("whole.h5", "/run/read_bytes")) read += bytes;
  for (const double bytes : result("whole.h5", "/run/write_bytes")) written += bytes;
  const double head_rows = 3 * 1501 * 16 * 4.0;
  EXPECT_EQ(read, head_rows * (6 + 3 + 3 + 6));
  EXPECT_EQ(written, head_rows * (6 + 6 + 3 + 3) + 3 * 1501 * 6 * 4.0);
}

}  // namespace
}  // namespace annulus::test
