// Sink logits through the program: results and gradients agree with the definition, in passes, in blocks and in runs
// that go on after a kill, too; what is shown and refused.
#include "program.hpp"
#include "results.hpp"

namespace annulus::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

class ProgramSinks : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    write("run.yaml", R"(
input: {file: in.h5, sink: sink}
attention: {segments: [16, 64, all], dilations: [1, 3, 5]}
compute: {backward: true}
distribution: {strategy: ring}
output: {file: out.h5, overwrite: true}
)");
    generate("");
    put_sink({0.5, -infinity, 3, -2, 0, 8});
  }

  void generate(const std::string& more) const {
    const Outcome made = annulus(0,
                                 "generate --output in.h5 --sequence 1501 --heads 6 --kv-heads 3 --head-dim 16 "
                                 "--batch 2 --dout --dlse" +
                                     more);
    ASSERT_EQ(made.status, 0) << made.err;
  }
  /// Makes the dataset `sink`, or replaces it.
  void put_sink(const std::vector<double>& values, hid_t type = H5T_IEEE_F32LE) const {
    const hid_t file = H5Fopen((folder / "in.h5").c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    if (H5Lexists(file, "sink", H5P_DEFAULT) > 0) H5Ldelete(file, "sink", H5P_DEFAULT);
    const hsize_t extent = values.size();
    const hid_t space = H5Screate_simple(1, &extent, nullptr);
    const hid_t data = H5Dcreate2(file, "sink", type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    EXPECT_GE(H5Dwrite(data, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
    H5Dclose(data);
    H5Sclose(space);
    H5Fclose(file);
  }
  std::vector<double> result(const std::string& dataset, const std::string& file = "out.h5") const {
    return numbers(folder / file, dataset);
  }
  void run(int ranks, const std::string& set) const {
    const Outcome ran = annulus(ranks, "run run.yaml" + set);
    ASSERT_EQ(ran.status, 0) << ran.err;
  }
};

TEST_F(ProgramSinks, ResultsAreTheDefinition) {
  for (const auto& [ranks, set] :
       {std::pair(3, std::string(" --set distribution.strategy=rotation --set output.statistics=[entropy]")),
        {2, " --set distribution.strategy=ulysses --set input.dlse=/dlse"},
        {1, " --set distribution.strategy=stream --set distribution.block_size=200"},
        {1, " --set compute.precision=float64 --set attention.semantics=grouped --set attention.group_scale=true"}}) {
    SCOPED_TRACE(set);
    run(ranks, set);
    const Outcome verified = annulus(2, "verify run.yaml --rows 40" + set);
    EXPECT_EQ(verified.status, 0) << verified.out << verified.err;
    EXPECT_EQ(word_on(verified.out, "dsink"), "ok") << verified.out;
    EXPECT_EQ(result("dsink")[1], 0) << "a head without a sink";
    EXPECT_EQ(text_attribute(folder / "out.h5", "dsink", "axes"), "head");
    spoil(folder / "out.h5", "dsink", 2, 1e-2 * std::max(1.0, std::abs(result("dsink")[2])));
    const Outcome spoilt = annulus(1, "verify run.yaml --rows 3" + set);
    EXPECT_EQ(spoilt.status, 3) << spoilt.out;
    EXPECT_EQ(word_on(spoilt.out, "dsink"), "WRONG") << spoilt.out;
  }
  const Outcome other = annulus(1, "verify run.yaml --set input.sink=none");
  EXPECT_EQ(other.status, 1) << "another function";
}

/// dsink is a sum over the rows of out. `verify` reads out from the result, so it computes dsink only as accurately as
/// out is stored.
TEST_F(ProgramSinks, OutStoredInFewerBits) {
  generate(" --dtype float64 --overwrite");
  put_sink({0.5, -infinity, 3, -2, 0, 8});
  const std::string set = " --set output.type=float32";
  run(2, set);
  const Outcome verified = annulus(1, "verify run.yaml --rows 40" + set);
  EXPECT_EQ(verified.status, 0) << verified.out << verified.err;
  spoil(folder / "out.h5", "dsink", 2, 1e-3 * std::max(1.0, std::abs(result("dsink")[2])));
  EXPECT_EQ(annulus(1, "verify run.yaml --rows 3" + set).status, 3);
  spoil(folder / "out.h5", "dsink", 4, std::nan(""));
  const Outcome none = annulus(1, "verify run.yaml --rows 3" + set);
  EXPECT_EQ(none.status, 3) << none.err;
  EXPECT_NE(none.out.find("WRONG, largest at [4]"), std::string::npos) << none.out;
}

TEST_F(ProgramSinks, HeadsWithoutOneAreAsBefore) {
  run(2, "");
  run(2, " --set input.sink=none --set output.file=without.h5");
  const std::vector<double> with = result("lse"), without = result("lse", "without.h5");
  for (std::size_t i = 0; i < with.size(); ++i) {
    if (i % 6 == 1) {
      ASSERT_EQ(with[i], without[i]) << i;
    } else if (i % 6 == 5) {
      ASSERT_GT(with[i], without[i]) << i;
    }
  }
}

TEST_F(ProgramSinks, SameBitsInPassesBlocksAndOnAnyRanks) {
  const std::string same = " --set compute.reproducible=true --set output.file=";
  run(1, same + "one.h5");
  run(3, same + "ranks.h5");
  run(2, same + "passes.h5 --set compute.memory_limit=5000KiB");
  run(2, same + "blocks.h5 --set distribution.strategy=stream --set distribution.block_size=100");
  EXPECT_NE(text_attribute(folder / "one.h5", "/", "title").find("sinks"), std::string::npos);
  for (const char* file : {"ranks.h5", "passes.h5", "blocks.h5"}) {
    for (const char* name : {"out", "lse", "dq", "dk", "dv", "dsink"}) {
      EXPECT_EQ(result(name, file), result(name, "one.h5")) << file << " " << name;
    }
  }
}

/// dsink contains the units that were finished before a kill, and no unit twice.
TEST_F(ProgramSinks, KilledRunsGoOn) {
  for (const std::string set : {" --set distribution.strategy=stream --set distribution.block_size=100",
                                " --set compute.memory_limit=5000KiB"}) {
    SCOPED_TRACE(set);
    const std::string preload = fmt::format(ANNULUS_LAUNCH, 1) + " env LD_PRELOAD=" ANNULUS_RECORDER " ",
                      command = ANNULUS_PROGRAM " run run.yaml" + set;
    ASSERT_EQ(shell(fmt::format("{}RECORD_FILE=calls.txt {} --set output.file=whole.h5", preload, command)).status, 0);
    const auto calls = count(slurp(folder / "calls.txt"), "\n");
    std::filesystem::remove(folder / "calls.txt");
    int stopped = 0;
    for (const auto share : {3, 5, 8}) {
      shell(fmt::format("{}RECORD_RANK=0 RECORD_KILL={} {}", preload, calls * share / 10, command));
      stopped += exists("out.h5.journal") && slurp(folder / "out.h5.journal").find(" done 0 ") != std::string::npos;
      run(1, set);
      EXPECT_EQ(result("dsink"), result("dsink", "whole.h5")) << share;
      EXPECT_FALSE(exists("out.h5.journal"));
    }
    EXPECT_GT(stopped, 1) << "killed too early or too late: nothing is tested";
  }
}

TEST_F(ProgramSinks, WhatIsNoSinkIsRefused) {
  const auto expect = [&](int status, const std::string& set, const std::string& message) {
    for (const char* verb : {"run", "run --dry-run"}) {
      const Outcome refused = annulus(0, std::string(verb) + " run.yaml" + set);
      EXPECT_EQ(refused.status, status) << refused.out;
      EXPECT_NE(refused.err.find(message), std::string::npos) << message << ": " << refused.err;
      EXPECT_EQ(count(refused.err, "annulus: error:"), 1) << refused.err;
    }
  };
  expect(1, " --set input.sink=lost", "in.h5: no dataset lost (in the file: ");
  expect(1, " --set input.sink=/q", "in.h5: dataset /q has 4 axes (2, 1501, 6, 16), expected 1: (heads)");
  put_sink({1, 2, 3});
  expect(1, "", "in.h5: dataset sink has shape (3), expected (6) to fit q (2, 1501, 6, 16) of 6 heads");
  put_sink({1, 2, 3, std::numeric_limits<double>::quiet_NaN(), 5, 6});
  expect(1, "", "in.h5: dataset sink holds nan at [3], expected finite numbers, or -inf for a head without a sink");
  put_sink({1, 2, 3, 4, infinity, 6}, H5T_IEEE_F64LE);
  expect(1, "", "in.h5: dataset sink holds inf at [4], expected finite numbers");
  put_sink({1, 2, 3, 3e38, 5, 6});
  expect(1, "", "in.h5: dataset sink[3] is 3e+38, expected at most 2.36e+38 in precision float32");
  put_sink({1, 2, 3, 4, 5, 6}, H5T_STD_I32LE);
  expect(1, "", "in.h5: dataset sink is 32-bit integer, expected float64, float32, float16 or bfloat16");
  write("run.yaml", "input: {generate: {sequence: 64, heads: 2}, sink: sink}\noutput: {file: out.h5}\n");
  expect(2, "", "run.yaml:1:45: input.sink needs input.file: it names a dataset in that file");
  write("run.yaml", "input: {file: in.h5, sink: sink}\nlayer: {heads: 2}\noutput: {file: out.h5}\n");
  expect(2, "", "run.yaml:1:22: input.sink: a layer's attention has no sink logits, expected none");
}

TEST_F(ProgramSinks, FloatsOfOtherTypes) {
  generate(" --dtype bfloat16 --overwrite");
  put_sink({0.1, 0.2, 0.3, 0.4, 0.5, 0.6}, H5T_IEEE_F64LE);
  run(2, "");
  const Outcome verified = annulus(1, "verify run.yaml --rows 20");
  EXPECT_EQ(verified.status, 0) << verified.out << verified.err;
}

}  // namespace
}  // namespace annulus::test
