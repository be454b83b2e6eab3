// Checkpoints of a training: which one it continues from, and that it never replaces the file of somebody else.
#include <cmath>

#include "layers.hpp"

namespace annulus::test {
namespace {

using Checkpoints = Layers;

TEST_F(Checkpoints, TheCheckpointBeforeStaysAndStandsInForADamagedOne) {
  ASSERT_EQ(train(2, "--set train.steps=1").status, 0);
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
  // A torn checkpoint must not replace .previous: a kill during the next write would then leave no good checkpoint.
  write("check.h5", "torn");
  Launched again(folder, fmt::format(ANNULUS_LAUNCH, 2) + " " + ANNULUS_PROGRAM +
                             " train run.yaml --set train.steps=1000000 --set train.save_every=1000000");
  ASSERT_TRUE(again.reaches("goes on from", 2)) << again.err();
  again.send_launcher(SIGUSR1);
  EXPECT_EQ(again.status(60), 75) << again.err();
  EXPECT_TRUE(numbers(folder / "check.h5.previous", "loss") == older);
  write("check.h5", "torn");
  const Outcome further = annulus(2, fmt::format("train run.yaml --set train.steps={}", newer.size() + 1));
  EXPECT_EQ(further.status, 0) << further.err;
  EXPECT_NE(further.err.find("going on from the checkpoint before, "), std::string::npos) << further.err;
  EXPECT_NE(further.err.find(fmt::format(" after step {}\n", older.size())), std::string::npos) << further.err;
  EXPECT_NEAR(result("loss")[newer.size() - 1], newer.back(), 1e-10);
  EXPECT_FALSE(exists("check.h5.previous")) << "nothing is left of a training that is finished";
}

TEST_F(Checkpoints, AForeignCheckpointIsRefused) {
  ASSERT_EQ(train(2, "--set train.steps=2").status, 0);
  const Outcome rate = annulus(2, "train run.yaml --set train.rate=1");
  EXPECT_EQ(rate.status, 1);
  EXPECT_NE(rate.err.find("check.h5: this checkpoint was made with other settings"), std::string::npos) << rate.err;
  EXPECT_NE(rate.err.find("train.rate: 3 -> 1"), std::string::npos) << rate.err;
  const Outcome fewer = annulus(2, "train run.yaml --set train.steps=1");
  EXPECT_EQ(fewer.status, 2);
  EXPECT_NE(fewer.err.find("has 2 steps done"), std::string::npos) << fewer.err;
  const auto expect_no_checkpoint = [&](const std::string& why) {
    const Outcome outcome = annulus(2, "train run.yaml");
    EXPECT_EQ(outcome.status, 1) << outcome.err;
    EXPECT_NE(outcome.err.find("run.yaml:5:29: train.checkpoint: the file that is there is no checkpoint: "),
              std::string::npos)
        << outcome.err;
    EXPECT_NE(outcome.err.find(why), std::string::npos) << outcome.err;
  };
  replace_by_text(folder / "check.h5", "/run/settings", "train: {steps: 2, momentum: 0.9}\n");  // of another version
  expect_no_checkpoint("check.h5:/run/settings:1:19: unknown key");
  ASSERT_EQ(shell("h5copy -i result.h5 -o bare.h5 -s /loss -d /loss && mv bare.h5 check.h5").status, 0);
  expect_no_checkpoint("check.h5: no dataset /run/settings");
  replace_by_scalar(folder / "check.h5", "/loss", 0.5);
  expect_no_checkpoint("check.h5: dataset loss has 0 axes");
  write("check.h5", "no HDF5");
  const Outcome text = annulus(2, "train run.yaml");
  EXPECT_EQ(text.status, 1);
  EXPECT_NE(text.err.find("check.h5: is not an HDF5 file"), std::string::npos) << text.err;
  EXPECT_NE(text.err.find("run.yaml:5:29: train.checkpoint: the file that is there is no checkpoint"),
            std::string::npos)
      << text.err;
  EXPECT_EQ(slurp(folder / "check.h5"), "no HDF5");
}

TEST_F(Checkpoints, AFileOfTheUserCalledPreviousIsNotReplaced) {
  const auto expect_refused = [&](const std::string& why) {
    const Outcome outcome = annulus(2, "train run.yaml");
    SCOPED_TRACE(outcome.err);
    EXPECT_EQ(outcome.status, 1);
    EXPECT_EQ(count(outcome.err, "check.h5.previous is not of this training"), 1);
    EXPECT_EQ(count(outcome.err, why), 1);
  };
  write("check.h5.previous", "of the user");
  expect_refused("there is no ");
  EXPECT_EQ(slurp(folder / "check.h5.previous"), "of the user");
  std::filesystem::remove(folder / "check.h5.previous");
  ASSERT_EQ(train(2, "--set train.steps=2 --set train.rate=1").status, 0);
  std::filesystem::rename(folder / "check.h5", folder / "check.h5.previous");  // put aside, to train anew
  expect_refused("there is no ");
  std::filesystem::rename(folder / "check.h5.previous", folder / "aside.h5");
  ASSERT_EQ(train(2, "--set train.steps=2").status, 0);
  std::filesystem::rename(folder / "aside.h5", folder / "check.h5.previous");
  expect_refused("train.rate: 1 -> 3");
  const Outcome rate = annulus(2, "train run.yaml --set train.rate=2");
  EXPECT_EQ(count(rate.err, "check.h5: this checkpoint was made with other settings"), 1) << rate.err;
  std::filesystem::remove(folder / "check.h5.previous");
  EXPECT_EQ(annulus(2, "train run.yaml").status, 0);
}

TEST_F(Checkpoints, ASecondTrainingWithTheSameCheckpointLosesNoSavedStepOfTheFirst) {
  Launched first(folder, fmt::format(ANNULUS_LAUNCH, 2) + " " + ANNULUS_PROGRAM +
                             " train run.yaml --set train.steps=1000000 --set train.save_every=1000000");
  ASSERT_TRUE(first.says("\nstep 4 ")) << first.out() << first.err();
  const Outcome second = train(1, "--set train.steps=2 --set train.rate=1 --set output.file=second.h5");
  EXPECT_EQ(second.status, 0) << second.err;
  const std::string saved = slurp(folder / "check.h5");
  first.send_launcher(SIGUSR1);
  EXPECT_EQ(first.status(60), 1) << first.err();
  EXPECT_EQ(count(first.err(), "train.checkpoint: another program has made, replaced or removed "), 1) << first.err();
  EXPECT_EQ(slurp(folder / "check.h5"), saved);
  EXPECT_EQ(files(), (std::vector<std::string>{"check.h5", "in.h5", "run.yaml", "second.h5"}));
}

TEST_F(Checkpoints, KeysThatChangeNoNumberOfATrainingMayChange) {
  ASSERT_EQ(train(2, "--set train.steps=2").status, 0);
  ASSERT_EQ(shell("h5copy -i in.h5 -o in.h5 -s /x -d /x2 && h5copy -i in.h5 -o in.h5 -s /target -d /t2").status, 0);
  int steps = 2;
  for (const char* change :
       {"layer.x=/x2", "train.target=/t2", "output.type=float32", "compute.backward=true", "layer.dy=/x2"}) {
    const Outcome outcome = annulus(2, fmt::format("train run.yaml --set train.steps={} --set {}", ++steps, change));
    EXPECT_EQ(outcome.status, 0) << change << "\n" << outcome.err;
    EXPECT_EQ(count(outcome.err, fmt::format("after step {}\n", steps - 1)), 1) << outcome.err;
  }
  const Outcome other = annulus(2, "train run.yaml --set train.target=/x2");
  EXPECT_EQ(other.status, 1);
  EXPECT_EQ(count(other.err, "was trained on other numbers than those of dataset /x2"), 1) << other.err;
}

}  // namespace
}  // namespace annulus::test
