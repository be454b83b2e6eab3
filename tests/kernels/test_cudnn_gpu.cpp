// cuDNN on a GPU against the definition. Only in builds with cuDNN.
#include <gtest/gtest.h>

#include "annulus/core/tolerance.hpp"
#include "annulus/kernels/cudnn/plans.hpp"
#include "kernels/band_case.hpp"
#include "kernels/cudnn_case.hpp"

namespace annulus::test {
namespace {

using core::Band;
using core::Precision;

class CudnnOnGpu : public testing::TestWithParam<DType> {
 public:
  void SetUp() override { engine = kernels::cudnn::make_engine(Kokkos::Cuda().cuda_stream()); }
  /// Checks that cuDNN alone has computed (query, key) pairs since `before`.
  static void expect_by_cudnn(const kernels::ComputedPairs& before) {
    EXPECT_GT(kernels::cudnn::computed_pairs().library, before.library);
    EXPECT_EQ(kernels::cudnn::computed_pairs().own, before.own) << kernels::cudnn::computed_pairs().reason;
  }
  std::unique_ptr<kernels::cudnn::Engine> engine;
};
INSTANTIATE_TEST_SUITE_P(Types, CudnnOnGpu, testing::Values(DType::bfloat16, DType::float16));

TEST_P(CudnnOnGpu, PairsOfManySegments) {
  for (const Band mask : {Band::all, Band::upto}) {
    for (const Index kv_heads : {1, 2, 4}) {
      WorkCase test = two_pairs<WorkCase>(kv_heads, GetParam(), mask);
      test.fill();
      const kernels::ComputedPairs before = kernels::cudnn::computed_pairs();
      expect_close(forward_by(*engine, test), test, core::forward_tolerance(GetParam()), 1e-5,
                   "kv_heads " + std::to_string(kv_heads) + ", mask " + name_of(mask));
      expect_by_cudnn(before);
    }
  }
}

TEST_P(CudnnOnGpu, AwkwardRowsOfEveryHeadSize) {
  for (const Index head_dim : {8, 40, 64, 128, 256}) {
    for (const bool causal : {false, true}) {
      const WorkCase test = awkward_case(head_dim, GetParam(), Precision::float32, causal);
      expect_close(forward_by(*engine, test), test, core::forward_tolerance(GetParam()), 1e-5,
                   "D = " + std::to_string(head_dim) + (causal ? ", causal" : ""));
    }
  }
}

// cuDNN computes bands that end at the diagonal or have no end; our own kernels add the rest to the same sums.
TEST_P(CudnnOnGpu, BandsWithTwoEnds) {
  for (const Band& band : window_bands) {
    SCOPED_TRACE(name_of(band));
    const WorkCase test = with_band(awkward_case(64, GetParam(), Precision::float32, false), band);
    // Tensor cores add up rounded weights, and lse is the logarithm of that sum.
    const double tolerance = core::forward_tolerance(GetParam());
    expect_close(forward_by(*engine, test), test, tolerance, tolerance / 4, name_of(band));
    BackwardCase gradients = with_band(awkward_backward_case(64, GetParam(), Precision::float32, Band::all), band);
    gradients.dlse.clear();
    gradients.output_scale = 1;
    expect_gradients(*engine, gradients, core::gradient_tolerance(GetParam()));
  }
}

TEST_P(CudnnOnGpu, GradientsOfPairs) {
  for (const Band mask : {Band::all, Band::upto}) {
    for (const Index kv_heads : {1, 2, 4}) {
      SCOPED_TRACE("kv_heads " + std::to_string(kv_heads) + ", mask " + name_of(mask));
      BackwardCase test = two_pairs<BackwardCase>(kv_heads, GetParam(), mask);
      test.fill_all();
      test.dlse.clear();
      const kernels::ComputedPairs before = kernels::cudnn::computed_pairs();
      expect_gradients(*engine, test, core::gradient_tolerance(GetParam()));
      expect_by_cudnn(before);
    }
  }
}

TEST_P(CudnnOnGpu, GradientsOfAwkwardRows) {
  for (const Band mask : {Band::all, Band::upto, Band::after}) {
    SCOPED_TRACE(name_of(mask));
    BackwardCase test = awkward_backward_case(64, GetParam(), Precision::float32, mask);
    test.dlse.clear();
    test.output_scale = 1;
    expect_gradients(*engine, test, core::gradient_tolerance(GetParam()));
  }
}

}  // namespace
}  // namespace annulus::test
