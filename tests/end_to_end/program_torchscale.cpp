// `semantics: torchscale` through the program: torchscale's recorded numbers (tests/strategies/test_torchscale.cpp says
// how they were made), the run file for a slide encoder, and refusals.
#include "program.hpp"
#include "results.hpp"

namespace annulus::test {
namespace {

class Torchscale : public ProgramTest {};

TEST_F(Torchscale, RecordedNumbersComeOut) {
  const std::string recorded = ANNULUS_SOURCE "/tests/strategies/torchscale.h5";
  struct Case {
    const char* group;
    const char* pairs;
    int ranks;
    const char* more;
  };
  for (const auto& [group, pairs, ranks, more] :
       {Case{"06", "segments: [6, 12, 1000], dilations: [1, 3, 5]", 3, "distribution.strategy=ring"},
        Case{"12", "segments: [8, 16, 32, 64, 128], dilations: [1, 2, 4, 8, 16]", 2, "distribution.strategy=ulysses"},
        Case{"14", "segments: [4, 8, 16], dilations: [1, 2, 4]", 3, "compute.reproducible=true"}}) {
    SCOPED_TRACE(group);
    write("run.yaml", fmt::format("input: {{file: {0}, q: /{1}/q, k: /{1}/k, v: /{1}/v}}\n"
                                  "attention: {{semantics: torchscale, causal: false, {2}}}\n"
                                  "output: {{file: out.h5, overwrite: true}}\n",
                                  recorded, group, pairs));
    const Outcome ran = annulus(ranks, fmt::format("run run.yaml --set {}", more));
    ASSERT_EQ(ran.status, 0) << ran.err;
    for (const char* name : {"out", "lse"}) {
      const std::vector<double> expected = numbers(recorded, fmt::format("/{}/{}", group, name));
      EXPECT_LT(largest_difference(numbers(folder / "out.h5", name), expected), 1e-12) << name;
    }
    const Outcome verified = annulus(2, "verify run.yaml --rows 40");
    EXPECT_EQ(verified.status, 0) << verified.out << verified.err;
    EXPECT_EQ(annulus(1, "verify run.yaml --set attention.semantics=longnet").status, 1) << "another function";
  }
}

TEST_F(Torchscale, VerifyKnowsThePaddingByItself) {
  write("run.yaml",
        "input: {generate: {sequence: 61, heads: 4, head_dim: 8}}\n"
        "attention: {causal: false, segments: [16, all], dilations: [1, 4]}\noutput: {file: out.h5}\n");
  ASSERT_EQ(annulus(2, "run run.yaml").status, 0);
  ASSERT_EQ(annulus(2, "run run.yaml --set attention.semantics=torchscale --set output.file=filled.h5").status, 0);
  ASSERT_EQ(shell("cp filled.h5 kept.h5").status, 0);
  const std::string verify = "verify run.yaml --rows 61 --set attention.semantics=torchscale --set output.file=";
  EXPECT_EQ(annulus(1, verify + "filled.h5").status, 0);
  const hid_t file = H5Fopen((folder / "filled.h5").c_str(), H5F_ACC_RDWR, H5P_DEFAULT);  // numbers without padding
  const hid_t data = H5Dopen2(file, "out", H5P_DEFAULT);
  ASSERT_GE(H5Dwrite(data, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers(folder / "out.h5", "out").data()),
            0);
  H5Dclose(data);
  H5Fclose(file);
  const Outcome verified = annulus(1, verify + "filled.h5");
  EXPECT_EQ(verified.status, 3) << verified.out;
  EXPECT_EQ(word_on(verified.out, "out"), "WRONG") << verified.out;
}

TEST_F(Torchscale, DisplacedRowsAreRefused) {
  const std::string deck =
      "input: {generate: {sequence: 53, heads: 4, head_dim: 8}}\nattention:\n"
      "  semantics: torchscale\n  segments: [8, 20, all]\n  dilations: [1, 3, 7]\n  causal: ";
  for (const char* causal : {"true", "false"}) {
    write("run.yaml", deck + causal + "\noutput: {file: out.h5}\n");
    for (const auto& [ranks, verb] : {std::pair(2, "run"), {0, "run --dry-run"}, {0, "plan"}, {0, "verify"}}) {
      const Outcome refused = annulus(ranks, std::string(verb) + " run.yaml");
      EXPECT_EQ(refused.status, 2) << verb << refused.out;
      EXPECT_EQ(count(refused.err, "annulus: error:"), 1) << refused.err;
      const std::string reason =
          "run.yaml:4:3: attention.segments: torchscale writes rows to wrong places in pair 2, segment 20 and "
          "dilation 3: the sequence of 53 rows has more than one segment, and 20 is no multiple of 3";
      EXPECT_NE(refused.err.find(reason), std::string::npos) << refused.err;
      EXPECT_EQ(files(), (std::vector<std::string>{"run.yaml"}));
    }
  }
  EXPECT_EQ(annulus(0, "run run.yaml --set attention.segments=\"[8, 21, all]\"").status, 0);
  EXPECT_EQ(annulus(0, "verify run.yaml --set attention.segments=\"[8, 21, all]\"").status, 0);
}

TEST_F(Torchscale, TheDocumentIsNamed) {
  ASSERT_EQ(annulus(0, "generate --output in.h5 --sequence 53 --heads 2 --head-dim 8").status, 0);
  const hid_t file = H5Fopen((folder / "in.h5").c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  const hsize_t extent = 4;
  const hid_t space = H5Screate_simple(1, &extent, nullptr);
  const hid_t data = H5Dcreate2(file, "documents", H5T_STD_I64LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  const long long offsets[] = {0, 20, 20, 53};
  ASSERT_GE(H5Dwrite(data, H5T_NATIVE_LLONG, H5S_ALL, H5S_ALL, H5P_DEFAULT, offsets), 0);
  H5Dclose(data);
  H5Sclose(space);
  H5Fclose(file);
  write("run.yaml",
        "input: {file: in.h5, documents: documents}\n"
        "attention: {semantics: torchscale, causal: false, segments: [20], dilations: [3]}\n"
        "output: {file: out.h5}\n");
  const Outcome refused = annulus(3, "run run.yaml");
  EXPECT_EQ(refused.status, 2);
  EXPECT_NE(refused.err.find("document 3 (rows 20 to 52) of 33 rows"), std::string::npos) << refused.err;
  EXPECT_NE(refused.err.find("expected a multiple or at least 33 rows"), std::string::npos) << refused.err;
}

TEST_F(Torchscale, ASlideEncodersRunFileIsPlanned) {
  const std::string deck = ANNULUS_SOURCE "/input/gigapath.yaml";
  const Outcome dry = annulus(2, "run " + deck + " --dry-run --set output.file=/tmp/none.h5");
  EXPECT_EQ(dry.status, 0) << dry.err;
  EXPECT_NE(dry.out.find("torchscale"), std::string::npos) << dry.out;
  const Outcome larger = annulus(1, "plan " + deck + " --set input.generate.sequence=185364");
  EXPECT_EQ(larger.status, 2);
  EXPECT_NE(larger.err.find("in pair 4, segment 185363 and dilation 8"), std::string::npos) << larger.err;
}

}  // namespace
}  // namespace annulus::test
