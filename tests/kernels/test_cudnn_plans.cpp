// Whether cuDNN has kernels for the shapes that work lists make, for a GPU that is only described to it: in builds with
// cuDNN only. Needs the driver's library, or the toolkit's stub of it (tests/kernels/CMakeLists.txt).
#include <gtest/gtest.h>

#include "annulus/core/error.hpp"
#include "annulus/kernels/cudnn/plans.hpp"

namespace annulus::kernels::cudnn {
namespace {

// An H100, described as CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION asks for.
constexpr const char* h100 = R"({"deviceName": "NVIDIA H100 80GB HBM3", "cudaDeviceId": 0, "deviceVer": 900,
  "driverVer": 13000, "multiProcessorCount": 132, "maxGridSize": [2147483647, 65535, 65535],
  "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536, "smClockRateKHz": 1980000, "memClockRateKHz": 2619000,
  "l2CacheSize": 52428800, "warpSize": 32, "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448,
  "reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536, "pciDeviceId": 0, "maxCtasPerSM": 32,
  "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "isTccDriver": 0, "supportCoopLaunch": 1,
  "totalGlobalMem": 85899345920})";

/// A comb of dilation 3 in tensors with twice as many heads.
PlanShape comb(Index heads, Index kv_heads, Index queries, Index keys, Index head_dim) {
  PlanShape shape;
  shape.batch = 5;
  shape.heads = heads;
  shape.kv_heads = kv_heads;
  shape.queries = queries;
  shape.keys = keys;
  shape.head_dim = head_dim;
  shape.scale = 0.125;
  const Index query_row = 3 * 2 * heads * head_dim, key_row = 3 * 2 * kv_heads * head_dim;
  shape.q = shape.out = shape.dout = {queries * query_row, head_dim, query_row};
  shape.k = shape.v = {keys * key_row, head_dim, key_row};
  return shape;
}

class CudnnPlans : public testing::Test {
 public:
  void expect_plans(PlanShape shape) {
    for (const core::DType type : {core::DType::bfloat16, core::DType::float16}) {
      shape.type = type;
      shape.backward = false;
      EXPECT_EQ(planner->prepare(shape).why_not, "");
      shape.backward = true;
      EXPECT_EQ(planner->prepare(shape).why_not, "");
    }
  }
  std::unique_ptr<Engine> planner = make_planner({h100, 90, 132});
};

TEST_F(CudnnPlans, CombsOfEveryMask) {
  for (const Index kv_heads : {4, 2, 1}) {
    PlanShape shape = comb(4, kv_heads, 101, 101, 64);
    SCOPED_TRACE(kv_heads);
    expect_plans(shape);
    shape.seen = 0;
    expect_plans(shape);
  }
}

TEST_F(CudnnPlans, RectanglesOfHops) {
  for (const auto& [queries, keys] : {std::pair<Index, Index>(77, 200), {200, 77}, {1, 33}, {33, 1}}) {
    for (const std::optional<Index> seen : {std::optional<Index>(), {0}, {13}, {123}}) {
      PlanShape shape = comb(4, 4, queries, keys, 64);
      shape.seen = seen;
      SCOPED_TRACE(std::to_string(queries) + " x " + std::to_string(keys));
      expect_plans(shape);
    }
  }
}

TEST_F(CudnnPlans, EveryHeadSize) {
  for (const Index head_dim : {8, 40, 64, 96, 128, 192, 256}) {
    SCOPED_TRACE(head_dim);
    PlanShape shape = comb(4, 4, 101, 101, head_dim);
    shape.seen = 0;
    expect_plans(shape);
  }
}

TEST_F(CudnnPlans, SaysWhatItHasNot) {
  PlanShape one = comb(4, 4, 1, 1, 64);
  EXPECT_EQ(planner->prepare(one).why_not, "");
  one.backward = true;
  EXPECT_EQ(planner->prepare(one).why_not, "cuDNN has no gradients of one query and one key");
  const std::string why = planner->prepare(comb(4, 4, 101, 101, 20)).why_not;
  EXPECT_EQ(why.find("cuDNN: "), 0u) << why;
  EXPECT_EQ(why.rfind("cuDNN: "), 0u) << "once: " << why;
}

TEST_F(CudnnPlans, KeepsAFewHundredPlans) {
  for (Index queries = 1; queries <= 300; ++queries) planner->prepare(comb(4, 4, queries, 1, 20));  // refused at once
  EXPECT_EQ(planner->prepare(comb(4, 4, 64, 64, 64)).why_not, "");
}

TEST_F(CudnnPlans, RunsNothing) {
  const PlanShape shape = comb(4, 4, 101, 101, 64);
  ASSERT_EQ(planner->prepare(shape).why_not, "");
  EXPECT_THROW(planner->forward(shape, {}, nullptr), core::Error);
  EXPECT_THROW(make_planner({"{}"}), core::Error);
}

}  // namespace
}  // namespace annulus::kernels::cudnn
