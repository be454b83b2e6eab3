// The two files of a training's checkpoints.
#include "launched.hpp"
#include "results.hpp"

namespace annulus::test {
namespace {

const char* const deck = R"(
input: {file: in.h5}
layer: {heads: 4}
train: {steps: 20, rate: 3, checkpoint: check.h5}
output: {file: result.h5, overwrite: true}
)";

class Checkpoints : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    const Outcome made =
        annulus(0, "generate --output in.h5 --layer 24 --sequence 53 --heads 4 --head-dim 6 --batch 2 --dtype float64");
    ASSERT_EQ(made.status, 0) << made.err;
    write("run.yaml", deck);
  }
};

TEST_F(Checkpoints, TheCheckpointBeforeStaysAndStandsInForADamagedOne) {
  ASSERT_EQ(annulus(2, "train run.yaml --set train.steps=1").status, 0);
  Launched run(folder, fmt::format(ANNULUS_LAUNCH, 2) + " " + ANNULUS_PROGRAM +
                           " train run.yaml --set train.steps=1000000 --set train.save_every=1");
  ASSERT_TRUE(run.reaches("goes on from", 2)) << run.err();
  ASSERT_TRUE(run.says("\nstep 4 ")) << run.out() << run.err();
  run.send_launcher(SIGUSR1);
  EXPECT_EQ(run.status(60), 75) << run.err();
  const std::vector<double> newer = numbers(folder / "check.h5", "loss");
  const std::vector<double> older = numbers(folder / "check.h5.previous", "loss");
  ASSERT_GE(newer.size(), 4u);
  EXPECT_EQ(older.size(), newer.size() - 1);
  EXPECT_TRUE(std::equal(older.begin(), older.end(), newer.begin()));
  write("check.h5", "torn");
  const Outcome further = annulus(2, fmt::format("train run.yaml --set train.steps={}", newer.size() + 1));
  EXPECT_EQ(further.status, 0) << further.err;
  EXPECT_NE(further.err.find("going on from the checkpoint before, "), std::string::npos) << further.err;
  EXPECT_NE(further.err.find(fmt::format(" after step {}\n", older.size())), std::string::npos) << further.err;
  EXPECT_NEAR(numbers(folder / "result.h5", "loss")[newer.size() - 1], newer.back(), 1e-10);
  EXPECT_FALSE(exists("check.h5.previous")) << "nothing is left of a training that is finished";
}

}  // namespace
}  // namespace annulus::test
