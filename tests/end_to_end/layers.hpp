// The input file of a small attention layer, and a run file that trains it.
#pragma once

#include "launched.hpp"
#include "results.hpp"

namespace annulus::test {

inline const char* const layer_deck = R"(
input: {file: in.h5}
attention: {segments: [16, all], dilations: [1, 2]}
layer: {heads: 4, kv_heads: 2, bq: /bq, bk: /bk, bv: /bv, bo: /bo, rope: {base: 100}}
train: {steps: 20, rate: 3, checkpoint: check.h5}
output: {file: result.h5, overwrite: true}
)";

class Layers : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    const Outcome made = annulus(2,
                                 "generate --output in.h5 --layer 24 --sequence 53 --heads 4 --kv-heads 2 --head-dim "
                                 "6 --batch 2 --dtype float64 --biases --seed 3");
    ASSERT_EQ(made.status, 0) << made.err;
    write("run.yaml", layer_deck);
  }
  std::vector<double> result(const std::string& name) const { return numbers(folder / "result.h5", name); }
  /// Removes the checkpoints, if there are any, and trains from the input's weights.
  Outcome train(int ranks, const std::string& more = "") const {
    for (const char* name : {"check.h5", "check.h5.previous"}) std::filesystem::remove(folder / name);
    return annulus(ranks, "train run.yaml " + more);
  }
};

}  // namespace annulus::test
