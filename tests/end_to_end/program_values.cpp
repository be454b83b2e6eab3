// Values whose head size is not that of the keys: files, generated tensors, strategies, stream, passes.
#include "program.hpp"
#include "results.hpp"

namespace annulus::test {
namespace {

class Values : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    ran(1,
        "generate --output in.h5 --sequence 67 --heads 4 --kv-heads 2 --head-dim 12 --value-dim 7 --batch 2 --dtype "
        "float64 --dout --dlse --seed 4");
    const std::string rest =
        "attention: {causal: true, segments: [16, {window: 9, first: 2}, all], dilations: [3, 1, 4]}\n"
        "compute: {backward: true}\noutput: {overwrite: true, statistics: [entropy, received, top], file: ";
    write("file.yaml", "input: {file: in.h5, dlse: /dlse}\n" + rest + "file.h5}\n");
    write("made.yaml",
          "input:\n  generate: {sequence: 67, heads: 4, kv_heads: 2, head_dim: 12, value_dim: 7, batch: 2, dtype: "
          "float64, seed: 4}\n" +
              rest + "made.h5}\n");
  }
  Outcome ran(int ranks, const std::string& words) const {
    Outcome outcome = annulus(ranks, words);
    EXPECT_EQ(outcome.status, 0) << words << "\n" << outcome.err;
    return outcome;
  }
  void expect_verified(const std::string& words) const {
    const Outcome verified = ran(2, "verify " + words + " --rows 200");
    for (const char* name : {"out", "lse", "dq", "dk", "dv"})
      EXPECT_EQ(word_on(verified.out, name), "ok") << verified.out;
  }
};

TEST_F(Values, OfFilesByEveryStrategy) {
  for (const char* how :
       {"single", "ring", "ring --set distribution.partition=zigzag", "ring_bidirectional", "rotation", "allgather",
        "allgather_overlap", "ulysses", "onesided", "pass_q", "ring --set compute.reproducible=true"}) {
    const std::string more = std::string(" --set distribution.strategy=") + how;
    SCOPED_TRACE(more);
    const Outcome outcome = ran(how == std::string("single") ? 1 : 3, "run file.yaml" + more);
    EXPECT_NE(outcome.out.find("2 x 67 rows, 4 heads of 12 (values of 7) (2 key/value heads)"), std::string::npos)
        << outcome.out;
    expect_verified("file.yaml" + more);
  }
  EXPECT_EQ(text_attribute(folder / "file.h5", "out", "axes"), "batch sequence head value_dim");
  EXPECT_EQ(text_attribute(folder / "file.h5", "dv", "axes"), "batch sequence kv_head value_dim");
  EXPECT_EQ(text_attribute(folder / "file.h5", "dk", "axes"), "batch sequence kv_head dim");
}

TEST_F(Values, MadeFromASeedAreThoseOfTheFile) {
  ran(1, "run file.yaml --set distribution.strategy=single --set input.dlse=none");
  ran(2, "run made.yaml --set distribution.strategy=ring");
  for (const char* name : {"out", "lse", "dq", "dk", "dv"}) {
    const std::vector<double> a = numbers(folder / "file.h5", name), b = numbers(folder / "made.h5", name);
    ASSERT_EQ(a.size(), b.size()) << name;
    EXPECT_LT(largest_difference(a, b), 1e-12) << name;
  }
  ran(1, "plan made.yaml --ranks 4");
  ran(2, "run made.yaml --dry-run");
}

TEST_F(Values, InBlocksOutOfTheFile) {
  const std::string stream = " --set distribution.strategy=stream --set distribution.block_size=20";
  write("stream.yaml",
        "input: {file: in.h5, dlse: /dlse}\nattention: {causal: true, segments: [16, all], dilations: [3, 1]}\n"
        "compute: {backward: true}\noutput: {file: stream.h5, overwrite: true}\n");
  ran(2, "run stream.yaml" + stream);
  expect_verified("stream.yaml" + stream);
  // One block of 4 x 67 x 68 / 2 triples. Forward and dq: 3 products of 12 and 2 of 7 multiply-adds; dk, dv: 2 and 2.
  const Outcome dry = ran(0,
                          "run --dry-run stream.yaml --set distribution.strategy=stream --set attention.segments=[all]"
                          " --set attention.dilations=[1] --set distribution.block_size=67");
  for (const char* gflop : {" 0.000911 ", " 0.000693 "}) EXPECT_NE(dry.out.find(gflop), std::string::npos) << dry.out;
}

TEST_F(Values, NamesWhatIsWrong) {
  const Outcome large = annulus(1, "run made.yaml --set input.generate.value_dim=577");
  EXPECT_EQ(large.status, 2);
  EXPECT_NE(large.err.find("input.generate.value_dim"), std::string::npos) << large.err;
  const Outcome dout = annulus(1, "run file.yaml --set input.dout=/q");
  EXPECT_EQ(dout.status, 1);
  EXPECT_NE(dout.err.find("dataset /q has shape (2, 67, 4, 12), expected (2, 67, 4, 7) to fit q (2, 67, 4, 12) and v"),
            std::string::npos)
      << dout.err;
}

}  // namespace
}  // namespace annulus::test
