// The tensor-core forward pass against the definition, without a GPU: its block programs run on the host's twins of the
// primitives they are written in.
#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <string>

#include "annulus/kernels/cuda/forward_block.hpp"
#include "kernels/awkward_case.hpp"
#include "kernels/cuda_case.hpp"
#include "support/tolerance.hpp"

namespace annulus::test {
namespace {

using core::BFloat16;
using core::Half;
using core::Precision;
using kernels::cuda::Engine16;
using kernels::cuda::ForwardBlock;

void expect_right(const WorkCase& test, const kernels::ReferenceResult& actual, const std::string& what) {
  const kernels::ReferenceResult expected = naive_answer(test);
  const double allowed = core::forward_tolerance(test.type);
  EXPECT_TRUE(close_to(actual.out, expected.out, allowed)) << "out, " << what;
  EXPECT_TRUE(close_to(actual.lse, expected.lse, allowed)) << "lse, " << what;
}

TEST(CudaForward, AwkwardMaps) {
  for (const bool causal : {false, true}) {
    const WorkCase test = awkward_case(64, DType::bfloat16, Precision::float32, causal);
    TwinRun how;
    expect_right(test, twin_answer<ForwardBlock<Engine16, BFloat16, kernels::cuda::sizes_16[1]>>(test, how), "x");
    EXPECT_EQ(how.bank_conflicts, 1);
  }
}

}  // namespace
}  // namespace annulus::test
