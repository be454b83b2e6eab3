// The attention layer through the program: runs with gradients, training, stopping and going on.
#include "layers.hpp"

namespace annulus::test {
namespace {

const std::vector<std::string> outputs{"y", "dx", "dwq", "dwk", "dwv", "dwo", "dbq", "dbk", "dbv", "dbo"};

TEST_F(Layers, EveryShardingStrategyAndRankCountGivesTheSameRun) {
  const std::string run = "run run.yaml --set compute.backward=true ";
  ASSERT_EQ(annulus(1, run).status, 0);
  std::map<std::string, std::vector<double>> expected;
  for (const std::string& name : outputs) expected[name] = result(name);
  EXPECT_EQ(expected["y"].size(), 2u * 53 * 24);
  EXPECT_EQ(expected["dwk"].size(), 24u * 12);
  EXPECT_EQ(expected["dbv"].size(), 12u);
  for (const auto& [ranks, more] : std::vector<std::pair<int, std::string>>{
           {2, "layer.sharding=none"},
           {3, "layer.sharding=fsdp --set distribution.strategy=rotation"},
           {4, "layer.sharding=fsdp --set distribution.strategy=ulysses"},
           {2, "layer.sharding=tensor"},
           {3, "layer.sharding=tensor"},
           {4, "distribution.strategy=allgather --set distribution.partition=zigzag"}}) {
    const Outcome ran = annulus(ranks, fmt::format("{}--set {}", run, more));
    ASSERT_EQ(ran.status, 0) << more << ran.err;
    for (const std::string& name : outputs) {
      EXPECT_LT(largest_difference(result(name), expected[name]), 1e-11) << name << " of " << more << " on " << ranks;
    }
    EXPECT_EQ(count(ran.out, "products "), 2) << ran.out;
  }
  const Outcome axes = shell("h5dump -a /y/axes -a /dwq/axes result.h5");
  EXPECT_EQ(count(axes.out, "batch sequence width"), 1) << axes.out;
  EXPECT_EQ(count(axes.out, "width q_width"), 1) << axes.out;
  EXPECT_EQ(numbers(folder / "result.h5", "/run/backward/layer_bytes_received").size(), 4u);
}

TEST_F(Layers, WithTensorShardingTheResultNamesWhatWasUsed) {
  const Outcome ran = annulus(2,
                              "run run.yaml --set layer.sharding=tensor --set distribution.strategy=ring "
                              "--set distribution.partition=zigzag");
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(count(ran.out, "  single on 2 ranks"), 1) << ran.out;
  EXPECT_EQ(count(ran.out, "the keys of distribution are not used"), 1) << ran.out;
  EXPECT_EQ(text_attribute(folder / "result.h5", "/run", "strategy"), "single");
  EXPECT_EQ(text_attribute(folder / "result.h5", "/run", "partition"), "contiguous");
}

TEST_F(Layers, GradientsAreThoseOfTheOutput) {
  const auto objective = [&] {  // sum dy * y, whose gradients the backward pass makes
    EXPECT_EQ(annulus(2, "run run.yaml --set layer.sharding=fsdp").status, 0);
    const auto y = result("y"), dy = numbers(folder / "in.h5", "dy");
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += dy[i] * y[i];
    return sum;
  };
  ASSERT_EQ(annulus(2, "run run.yaml --set compute.backward=true").status, 0);
  std::map<std::string, std::vector<double>> gradients;
  for (const std::string& name : outputs) gradients[name] = result(name);
  const double step = 1e-4;
  for (const auto& [name, index] : std::vector<std::pair<std::string, std::size_t>>{
           {"x", 1000}, {"wq", 77}, {"wk", 200}, {"wv", 13}, {"wo", 500}, {"bq", 20}, {"bv", 11}, {"bo", 3}}) {
    spoil(folder / "in.h5", name, index, step);
    const double above = objective();
    spoil(folder / "in.h5", name, index, -2 * step);
    const double below = objective();
    spoil(folder / "in.h5", name, index, step);
    EXPECT_NEAR((above - below) / (2 * step), gradients["d" + name][index], 1e-6) << name;
  }
}

TEST_F(Layers, LossCurveIsTheSameForStrategiesShardingsAndRankCounts) {
  ASSERT_EQ(train(1).status, 0);
  const auto loss = result("loss"), wq = result("wq"), bo = result("bo");
  ASSERT_EQ(loss.size(), 21u) << "before the first step and after each";
  for (std::size_t i = 1; i < loss.size(); ++i) EXPECT_LT(loss[i], loss[i - 1]) << "step " << i;
  EXPECT_LT(loss.back(), 0.9 * loss.front());
  // tests/layer checks the same for every strategy with every sharding.
  for (const auto& [ranks, more] :
       std::vector<std::pair<int, std::string>>{{2, "distribution.strategy=ring"},
                                                {4, "distribution.strategy=rotation --set layer.sharding=fsdp"},
                                                {3, "distribution.strategy=ulysses --set layer.sharding=fsdp"},
                                                {4, "layer.sharding=tensor"}}) {
    const Outcome trained = train(ranks, "--set " + more);
    ASSERT_EQ(trained.status, 0) << more << trained.err;
    EXPECT_LT(largest_difference(result("loss"), loss), 1e-10) << more << " on " << ranks;
    EXPECT_LT(largest_difference(result("wq"), wq), 1e-9) << more << " on " << ranks;
    EXPECT_LT(largest_difference(result("bo"), bo), 1e-9) << more << " on " << ranks;
    EXPECT_EQ(count(trained.out, "\nstep "), 12) << "0 to 10, and 20\n" << trained.out;
    EXPECT_EQ(count(trained.out, " single on 4 ranks\n"), more == "layer.sharding=tensor" ? 1 : 0) << trained.out;
  }
}

/// A batch whose second entry has no rows trains as the first entry alone.
TEST_F(Layers, RowsThatDoNotExistDoNotTrain) {
  const std::size_t entry = 53 * 24;
  for (const char* name : {"x", "target"}) {
    std::vector<double> values = numbers(folder / "in.h5", name);
    add_numbers(folder / "one.h5", name, {1, 53, 24}, {values.begin(), values.begin() + entry});
    std::fill(values.begin() + entry, values.end(), std::nan(""));
    rewrite(folder / "in.h5", name, values);
  }
  for (const char* name : {"wq", "wk", "wv", "wo", "bq", "bk", "bv", "bo"}) {
    const std::vector<double> values = numbers(folder / "in.h5", name);
    std::vector<hsize_t> extents{values.size()};
    if (name[0] == 'w') extents = {name[1] == 'o' ? values.size() / 24 : 24, name[1] == 'o' ? 24 : values.size() / 24};
    add_numbers(folder / "one.h5", name, extents, values);
  }
  add_numbers(folder / "in.h5", "rows", {2}, {53, 0}, H5T_STD_I64LE);
  const Outcome alone = train(1, "--set input.file=one.h5");
  ASSERT_EQ(alone.status, 0) << alone.err;
  const auto loss = result("loss"), bo = result("bo");
  for (const char* sharding : {"none", "fsdp", "tensor"}) {
    const Outcome trained = train(2, fmt::format("--set input.lengths=rows --set layer.sharding={}", sharding));
    ASSERT_EQ(trained.status, 0) << trained.err;
    EXPECT_LT(largest_difference(result("loss"), loss), 1e-10) << sharding;
    EXPECT_LT(largest_difference(result("bo"), bo), 1e-9) << sharding;
  }
}

TEST_F(Layers, TrainingGoesOnFromACheckpointOnOtherRanksAndShardings) {
  ASSERT_EQ(train(2).status, 0);
  const auto loss = result("loss"), wo = result("wo");
  ASSERT_EQ(train(1, "--set train.steps=7 --set layer.sharding=tensor").status, 0);
  EXPECT_EQ(numbers(folder / "check.h5", "loss").size(), 7u);
  const Outcome further = annulus(4, "train run.yaml --set train.steps=13 --set layer.sharding=fsdp");
  ASSERT_EQ(further.status, 0) << further.err;
  EXPECT_EQ(count(further.err, "goes on from"), 1) << further.err;
  EXPECT_EQ(count(further.out, "\nstep 6 "), 0) << "done before";
  ASSERT_EQ(annulus(3, "train run.yaml --set distribution.strategy=rotation").status, 0);
  EXPECT_LT(largest_difference(result("loss"), loss), 1e-10);
  EXPECT_LT(largest_difference(result("wo"), wo), 1e-9);
  // All steps done: only the result is made again.
  std::filesystem::remove(folder / "result.h5");
  ASSERT_EQ(annulus(2, "train run.yaml").status, 0);
  EXPECT_LT(largest_difference(result("loss"), loss), 1e-10);
}

TEST_F(Layers, ARequestToStopSavesAndTheNextLaunchGoesOn) {
  ASSERT_EQ(train(2, "--set train.steps=40").status, 0);
  const auto loss = result("loss");
  const auto start = [&] { return train(2, "--set train.steps=1 --set output.file=first.h5").status; };
  for (const auto& [signal, rank] : {std::pair(SIGUSR1, 1), std::pair(SIGTERM, 0)}) {
    ASSERT_EQ(start(), 0);
    Launched run(folder, fmt::format(ANNULUS_LAUNCH, 2) + " " + ANNULUS_PROGRAM +
                             " train run.yaml --set train.steps=1000000 --set train.save_every=1000000");
    ASSERT_TRUE(run.reaches("goes on from", 2)) << run.err();
    run.send(rank, signal);
    EXPECT_EQ(run.status(60), 75) << run.err();
    EXPECT_NE(run.err().find("stopped on request after step "), std::string::npos) << run.err();
    const std::size_t done = numbers(folder / "check.h5", "loss").size();
    EXPECT_GT(done, 1u);
    // It is the same training: its losses begin like those of the uninterrupted one.
    const auto saved = numbers(folder / "check.h5", "loss");
    for (std::size_t i = 0; i < std::min(done, loss.size()); ++i) EXPECT_NEAR(saved[i], loss[i], 1e-10) << i;
    const Outcome further = annulus(3, fmt::format("train run.yaml --set train.steps={}", done + 2));
    EXPECT_EQ(further.status, 0) << further.err;
    EXPECT_EQ(result("loss").size(), done + 3);
  }
  for (const std::string& name : files()) EXPECT_EQ(name.find(".tmp"), std::string::npos) << name;
}

TEST_F(Layers, TheLauncherMayBeAskedToStop) {
  const auto loss = [&] { return numbers(folder / "check.h5", "loss").size(); };
  for (const int signal : {SIGUSR1, SIGTERM}) {
    ASSERT_EQ(train(2, "--set train.steps=1").status, 0);
    Launched run(folder, fmt::format(ANNULUS_LAUNCH, 2) + " " + ANNULUS_PROGRAM +
                             " train run.yaml --set train.steps=1000000 --set train.save_every=1000000");
    ASSERT_TRUE(run.reaches("goes on from", 2)) << run.err();
    run.send_launcher(signal);
    const int status = run.status(60);
    // On TERM Open MPI's mpirun ends: it kills the ranks a second later, even if they have not saved, and returns 1.
    const bool killed = signal == SIGTERM && status == 1;
    EXPECT_TRUE(killed || status == 75) << status << run.err();
    EXPECT_EQ(run.left(), 0);
    EXPECT_GE(loss(), killed ? 1u : 2u) << "a whole checkpoint, of the stop or the one before";
    EXPECT_TRUE(killed || run.err().find("stopped on request after step ") != std::string::npos) << run.err();
  }
}

TEST_F(Layers, AStalledRankEndsTheTrainingWithStatus4AndADiagnosis) {
  for (const char* sharding : {"none", "fsdp", "tensor"}) {
    SCOPED_TRACE(sharding);
    ASSERT_EQ(train(3, fmt::format("--set train.steps=1 --set output.file=first.h5 --set layer.sharding={}", sharding))
                  .status,
              0);
    std::filesystem::remove(folder / "result.h5");
    Launched run(folder, fmt::format(ANNULUS_LAUNCH, 3) + " " + ANNULUS_PROGRAM +
                             " train run.yaml --set train.steps=1000000 --set train.save_every=1000000 --set "
                             "distribution.stall_timeout=5 --set distribution.strategy=ring --set layer.sharding=" +
                             sharding);
    ASSERT_TRUE(run.reaches("goes on from", 3)) << run.err();
    ASSERT_TRUE(run.says("\nstep 2 ")) << run.out() << run.err();
    run.send(1, SIGSTOP);
    EXPECT_EQ(run.status(60), 4) << run.err();
    EXPECT_EQ(run.left(), 0);
    for (const int rank : {0, 2}) {
      EXPECT_EQ(count(run.err(), fmt::format("annulus: stalled: rank {}: ", rank)), 1) << run.err();
    }
    EXPECT_GE(count(run.err(), "step "), 2) << run.err();
    EXPECT_FALSE(exists("result.h5"));
    EXPECT_EQ(numbers(folder / "check.h5", "loss").size(), 1u) << "the last checkpoint is left as it was";
  }
}

TEST_F(Layers, ToldToEndBesideADeadRankTheOthersDoBeforeTheBatchSystemKills) {
  ASSERT_EQ(train(3, "--set train.steps=1 --set output.file=first.h5").status, 0);
  const std::vector<std::string> before = files();
  Launched run(folder, fmt::format(ANNULUS_LAUNCH, 3) + " " + ANNULUS_PROGRAM +
                           " train run.yaml --set train.steps=1000000 --set train.save_every=1000000");
  ASSERT_TRUE(run.reaches("goes on from", 3)) << run.err();
  ASSERT_TRUE(run.says("\nstep 2 ")) << run.out() << run.err();
  run.send(2, SIGSTOP);
  run.send(0, SIGTERM);
  run.send(1, SIGTERM);
  EXPECT_EQ(run.status(90), 4) << run.err();  // less than 30 s on a quiet machine: 20 s, and what the message takes
  EXPECT_NE(run.err().find("no rank made progress for 20 s (shortened by SIGTERM)"), std::string::npos) << run.err();
  EXPECT_EQ(run.left(), 0);
  std::vector<std::string> after = files();
  EXPECT_GE(std::erase_if(after, [](const std::string& name) { return name.ends_with(".jsonl"); }), 2u) << run.err();
  EXPECT_EQ(after, before) << "nothing half made";
}

TEST_F(Layers, MistakesAreNamed) {
  const auto expect = [&](const std::string& arguments, int status, const std::vector<std::string>& words) {
    for (const int ranks : {0, 3}) {
      const Outcome outcome = annulus(ranks, arguments);
      SCOPED_TRACE(fmt::format("{} ranks: {}\n{}", ranks, arguments, outcome.err));
      EXPECT_EQ(outcome.status, status);
      EXPECT_EQ(count(outcome.err, "annulus: error:"), 1);
      for (const std::string& word : words) EXPECT_NE(outcome.err.find(word), std::string::npos) << word;
      EXPECT_EQ(files(), (std::vector<std::string>{"attention.yaml", "in.h5", "run.yaml"}));
    }
  };
  write("attention.yaml", "input: {file: in.h5}\noutput: {file: result.h5}\n");
  expect("train attention.yaml", 2, {"attention.yaml:1:1", "train needs the sections layer and train"});
  expect("run run.yaml --set layer.wk=/absent", 1, {"in.h5", "no dataset /absent", "layer.wk names it"});
  expect("run run.yaml --set layer.bv=true", 1, {"in.h5", "no dataset true", "layer.bv names it"});
  expect("run run.yaml --set compute.backward=true --set layer.dy=/dY", 1,
         {"no dataset /dY", "layer.dy names it, compute.backward"});
  expect("run attention.yaml", 1, {"no dataset /q", "input.q names it", "a section layer is missing"});
  expect("run run.yaml --set layer.wk=/wq", 1, {"dataset /wq has shape (24, 24), expected (24, 12) to fit x"});
  expect("run run.yaml --set layer.heads=5 --set layer.kv_heads=5", 1, {"/wq has 24 columns", "layer.heads, 5"});
  expect("run run.yaml --set layer.bq=/bk", 1, {"dataset /bk has shape (12), expected (24)"});
  expect("run run.yaml --set layer.rope.base=0.5", 2, {"layer.rope", "above 1"});
  expect("run run.yaml --set layer.x=/wq", 1, {"dataset /wq has 2 axes"});
  expect("train run.yaml --set train.target=/absent", 1, {"no dataset /absent", "train.target names it"});
  expect("train run.yaml --set train.rate=1e300", 1, {"the loss is", "train.rate"});
  expect("train run.yaml --set output.file=nowhere/o.h5", 1, {"nowhere"});
  expect("train run.yaml --set train.checkpoint=nowhere/c.h5", 1, {"nowhere"});
  expect("train run.yaml --set output.report=r.json", 2, {"output.report", "train makes no report"});
  for (const char* verb : {"run", "train"}) {
    expect(fmt::format("{} run.yaml --set compute.reproducible=true", verb), 2,
           {"--set compute.reproducible=true", "compute.reproducible: a layer cannot"});
  }
  expect("verify run.yaml", 1, {"result.h5: there is no result yet"});
  expect("generate --output o.h5 --layer 8 --sequence 4 --heads 2 --dout", 2, {"--dout", "--layer"});
  expect("generate --output o.h5 --biases --sequence 4 --heads 2", 2, {"--layer"});
}

TEST_F(Layers, ALossThatIsNoNumberBehindTheLastStepIsAnError) {
  const Outcome ran = annulus(2, "train run.yaml --set train.rate=1e300 --set train.steps=1");
  EXPECT_EQ(ran.status, 1);
  EXPECT_NE(ran.err.find("after step 1: train.rate, 1e+300, is too large for it"), std::string::npos) << ran.err;
  EXPECT_EQ(count(ran.err, "annulus: error:"), 1) << ran.err;
}

TEST_F(Layers, GradientsThatFloat16CannotHoldAreSaid) {
  ASSERT_EQ(annulus(1,
                    "generate --output in.h5 --layer 24 --sequence 106 --heads 4 --kv-heads 2 --head-dim 6 "
                    "--dtype float16 --biases --overwrite")
                .status,
            0);
  rewrite(folder / "in.h5", "wo", std::vector<double>(24 * 24, 0.0));
  rewrite(folder / "in.h5", "bo", std::vector<double>(24, 0.0));
  const std::string warning = "warning: the gradient of the loss has numbers near 4.7e-08, which float16 cannot hold";
  for (const double target : {3e-4, 1.2e-4}) {  // the gradient is target / (106 24): 1.2e-7 and 4.7e-8
    rewrite(folder / "in.h5", "target", std::vector<double>(106 * 24, target));
    const Outcome ran = train(2, "--set train.steps=3");
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_EQ(count(ran.err, warning), target < 2e-4 ? 1 : 0) << ran.err;
  }
  // N counts rows that exist: with 40 of 106 rows the gradient is 1.2e-7.
  add_numbers(folder / "in.h5", "rows", {1}, {40}, H5T_STD_I64LE);
  const Outcome half = train(2, "--set train.steps=1 --set input.lengths=rows");
  EXPECT_EQ(half.status, 0) << half.err;
  EXPECT_EQ(count(half.err, "warning: the gradient"), 0) << half.err;
}

TEST_F(Layers, TrainingRefusesGradientsThatWouldBeRoundingErrorsAsRunDoes) {
  ASSERT_EQ(annulus(1,
                    "generate --output in.h5 --layer 24 --sequence 53 --heads 4 --kv-heads 2 --head-dim 6 --biases "
                    "--overwrite")
                .status,
            0);
  std::vector<double> x = numbers(folder / "in.h5", "x");
  for (double& number : x) number *= 2e4;
  rewrite(folder / "in.h5", "x", x);
  for (const char* verb : {"run run.yaml --set compute.backward=true --set layer.dy=/x", "train run.yaml"}) {
    const Outcome outcome = annulus(2, verb);
    SCOPED_TRACE(std::string(verb) + "\n" + outcome.err);
    EXPECT_EQ(outcome.status, 1);
    EXPECT_EQ(count(outcome.err, "gradients would be rounding errors"), 1);
  }
  EXPECT_EQ(train(2, "--set train.rate=1e-12 --set compute.precision=float64").status, 0);
}

TEST_F(Layers, AnOverflowAtASaveBlamesTheRate) {
  ASSERT_EQ(annulus(1,
                    "generate --output in.h5 --layer 24 --sequence 53 --heads 4 --kv-heads 2 --head-dim 6 --biases "
                    "--overwrite")
                .status,
            0);
  const Outcome ran = train(2, "--set train.rate=1e39 --set train.save_every=1");
  EXPECT_EQ(ran.status, 1);
  EXPECT_EQ(count(ran.err, "after step 1: train.rate, 1e+39, is too large"), 1) << ran.err;
  EXPECT_EQ(count(ran.err, "attention.scale"), 0) << ran.err;
}

TEST_F(Layers, NanInAWeightIsNamedByItsPlace) {
  spoil(folder / "in.h5", "/wv", 3 * 12 + 5, std::nan(""));
  for (const char* sharding : {"none", "fsdp", "tensor"}) {
    const Outcome outcome = annulus(3, fmt::format("run run.yaml --set layer.sharding={}", sharding));
    EXPECT_EQ(outcome.status, 1) << outcome.err;
    EXPECT_NE(outcome.err.find("dataset /wv holds nan at [3, 5]"), std::string::npos) << sharding << outcome.err;
  }
}

TEST_F(Layers, DryRunTellsOfTheLayer) {
  const Outcome dry = annulus(0, "run --dry-run --ranks 4 run.yaml --set layer.sharding=fsdp");
  EXPECT_EQ(dry.status, 0) << dry.err;
  for (const char* word : {"# layer: width 24, rope base 100, biases, sharding fsdp", "4 ranks", "rope: {base: 100}"}) {
    EXPECT_NE(dry.out.find(word), std::string::npos) << word << " is missing in:\n" << dry.out;
  }
  write("again.yaml", dry.out);  // what it prints is a run file that says the same
  EXPECT_EQ(annulus(2, "run again.yaml").status, 0);
}

TEST_F(Layers, DryRunOfTrainingTellsOfBothPassesAndOfTensorShardingThatNoRowsTravel) {
  const Outcome dry = annulus(0, "run --dry-run --ranks 4 run.yaml --set layer.sharding=tensor");
  EXPECT_EQ(count(dry.out, "# 4 ranks: at most"), 2) << dry.out;
  EXPECT_EQ(count(dry.out, " 0 B sent, 0 B received"), 2) << dry.out;
}

TEST_F(Layers, ARunOfATrainingsFileIsPlannedWithoutGradients) {
  ASSERT_EQ(annulus(2, "run run.yaml --set output.report=report.json").status, 0);
  EXPECT_NE(slurp(folder / "report.json").find("\"backward\": false"), std::string::npos);
}

TEST_F(Layers, TheExampleDeckTrains) {
  std::filesystem::create_directories(folder / "build");
  std::filesystem::create_directories(folder / "input");
  std::filesystem::copy(std::string(ANNULUS_SOURCE) + "/input/train_layer.yaml", folder / "input");
  // The `annulus generate` command that a comment in this file gives.
  const std::string text = slurp(folder / "input/train_layer.yaml");
  const auto begin = text.find("annulus generate ") + 8, end = text.find('\n', begin);
  ASSERT_EQ(annulus(0, text.substr(begin, end - begin)).status, 0);
  const Outcome trained = annulus(2, "train input/train_layer.yaml");
  ASSERT_EQ(trained.status, 0) << trained.err;
  const auto loss = numbers(folder / "build/train_layer.h5", "loss");
  EXPECT_LT(loss.back(), 0.9 * loss.front());
}

}  // namespace
}  // namespace annulus::test
