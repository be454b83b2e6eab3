// The memory that a layer and its training take, and the memory that a dry run predicts.
#include "annulus/core/print.hpp"
#include "layers.hpp"

namespace annulus::test {
namespace {

TEST_F(Layers, FsdpKeepsLess) {
  ASSERT_EQ(
      annulus(0, "generate --output wide.h5 --layer 512 --sequence 16 --heads 16 --head-dim 32 --dtype float32").status,
      0);
  write("wide.yaml",
        "input: {file: wide.h5}\nlayer: {heads: 16}\ncompute: {backward: true}\n"
        "output: {file: result.h5, overwrite: true}\n");
  std::map<std::string, double> peak;
  for (const char* sharding : {"none", "fsdp"}) {
    ASSERT_EQ(annulus(4, fmt::format("run wide.yaml --set layer.sharding={}", sharding)).status, 0);
    for (const double bytes : result("/run/peak_bytes")) peak[sharding] = std::max(peak[sharding], bytes);
  }
  const double weight = 512 * 512 * 4;
  EXPECT_GT(peak["none"], 4 * weight);
  EXPECT_LT(peak["fsdp"], 3.5 * weight) << "a quarter of four weights, and no more than two gathered ones";
}

TEST_F(Layers, MemoryIsWhatTheDryRunPredicts) {
  ASSERT_EQ(annulus(0,
                    "generate --output wide.h5 --layer 192 --sequence 3000 --heads 6 --kv-heads 2 --head-dim 32 "
                    "--biases")
                .status,
            0);
  write("wide.yaml",
        "input: {file: wide.h5}\nattention: {segments: [256, all], dilations: [1, 8]}\n"
        "layer: {heads: 6, kv_heads: 2, bq: /bq, bo: /bo, rope: {base: 100}}\ncompute: {backward: true}\n"
        "distribution: {strategy: ring}\noutput: {file: result.h5, overwrite: true}\n");
  for (const int ranks : {1, 2, 3}) {
    for (const char* sharding : {"none", "fsdp", "tensor"}) {
      SCOPED_TRACE(fmt::format("{} on {}", sharding, ranks));
      const Outcome dry =
          annulus(0, fmt::format("run --dry-run --ranks {} wide.yaml --set layer.sharding={}", ranks, sharding));
      ASSERT_EQ(annulus(ranks, fmt::format("run wide.yaml --set layer.sharding={}", sharding)).status, 0);
      for (const std::string pass : {"/run/", "/run/backward/"}) {
        const auto measured = result(pass + "peak_bytes"), predicted = result(pass + "predicted_peak_bytes");
        double most = 0;
        for (std::size_t p = 0; p < std::size_t(ranks); ++p) {
          EXPECT_LE(measured[p], predicted[p]) << pass << " rank " << p;
          EXPECT_GE(measured[p], 0.8 * predicted[p]) << pass << " rank " << p;
          most = std::max(most, predicted[p]);
        }
        const std::string line =
            fmt::format("# {}: at most {:.1f} MiB of memory", core::how_many(ranks, "rank"), most / (1 << 20));
        EXPECT_NE(dry.out.find(line), std::string::npos) << line << " is missing in:\n" << dry.out;
      }
    }
  }
}

TEST_F(Layers, MoreThanTheLimitIsRefused) {
  ASSERT_EQ(annulus(0, "generate --output wide.h5 --layer 192 --sequence 3000 --heads 6 --head-dim 32").status, 0);
  write("wide.yaml",
        "input: {file: wide.h5}\nlayer: {heads: 6}\ncompute: {memory_limit: 4MiB}\n"
        "train: {steps: 2, rate: 1, checkpoint: check.h5}\noutput: {file: result.h5}\n");
  for (const char* verb : {"run", "train"}) {
    const Outcome refused = annulus(2, fmt::format("{} wide.yaml", verb));
    EXPECT_EQ(refused.status, 2) << verb;
    for (const char* word : {"wide.yaml:3:11: compute.memory_limit: ",
                             "on the fullest of 2 ranks; each may use 4.0 MiB", "a layer is not computed in passes"}) {
      EXPECT_NE(refused.err.find(word), std::string::npos) << word << " is missing in: " << refused.err;
    }
  }
  const Outcome dry = annulus(0, "run --dry-run --ranks 2 wide.yaml");
  EXPECT_NE(dry.out.find("# does not fit: wide.yaml:3:11: compute.memory_limit: "), std::string::npos) << dry.out;
  EXPECT_EQ(dry.status, 2) << "a dry run refuses what the run refuses";
  EXPECT_EQ(annulus(2, "run wide.yaml --set compute.memory_limit=64MiB").status, 0);
}

TEST_F(Layers, MemoryOfTrainingIsWhatTheDryRunPredicts) {
  ASSERT_EQ(annulus(0, "generate --output wide.h5 --layer 192 --sequence 3000 --heads 6 --head-dim 32").status, 0);
  write("wide.yaml",
        "input: {file: wide.h5}\nattention: {segments: [256], dilations: [1]}\nlayer: {heads: 6, sharding: fsdp}\n"
        "train: {steps: 2, rate: 1, checkpoint: check.h5}\ndistribution: {strategy: ring}\n"
        "output: {file: result.h5}\n");
  const Outcome trained = annulus(2, "train wide.yaml");
  ASSERT_EQ(trained.status, 0) << trained.err;
  double most = 0;
  for (std::size_t p = 0; p < 2; ++p) {
    const double measured = result("/run/peak_bytes")[p], predicted = result("/run/predicted_peak_bytes")[p];
    EXPECT_LE(measured, predicted) << p;
    EXPECT_GE(measured, 0.8 * predicted) << p;
    most = std::max(most, predicted);
  }
  const Outcome dry = annulus(0, "run --dry-run --ranks 2 wide.yaml");
  const std::string line = fmt::format("# training: at most {:.1f} MiB of memory", most / (1 << 20));
  EXPECT_NE(dry.out.find(line), std::string::npos) << line << " is missing in:\n" << dry.out;
}

}  // namespace
}  // namespace annulus::test
