// The tensor-core backward pass that adds to dq atomically, against the definition, without a GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "kernels/cuda_backward_case.hpp"

#include "kernels/awkward_case.hpp"

namespace annulus::test {
namespace {

using core::Band;

template <class Products>
class CudaAllGradients : public testing::Test {};
TYPED_TEST_SUITE(CudaAllGradients, AllProducts);

TYPED_TEST(CudaAllGradients, EveryHeadSizeAndMask) {
  for (const Index head_dim : TypeParam::backward_dims) {
    for (const Band mask : {Band::all, Band::upto, Band::after}) {
      if (mask != Band::upto && head_dim != TypeParam::backward_dims[0]) continue;
      SCOPED_TRACE("D " + std::to_string(head_dim) + ", mask " + name_of(mask));
      const BackwardCase test = awkward_backward_case(head_dim, TypeParam::type, TypeParam::precision, mask);
      const BackwardAnswer known = naive_backward(test);
      TwinRun how;
      expect_close(twin_gradients_at_once<TypeParam>(test, known, how), known.gradients, TypeParam::gradient_tolerance);
      EXPECT_EQ(how.bank_conflicts, 1);
    }
  }
}

// Several tiles of queries for each block of keys: dS^T of one tile, and P of a pair of warps, are not overwritten by
// that of the next one while a warp still reads it. Blocks and fibres come one after another, so that bits are the same
// here.
TYPED_TEST(CudaAllGradients, AnyOrderOfThreadsAndCopies) {
  for (const Index head_dim : {16, 80}) {
    SCOPED_TRACE("D " + std::to_string(head_dim));
    const BackwardCase test = long_backward_case(head_dim, TypeParam::type, TypeParam::precision, Band::upto);
    const BackwardAnswer known = naive_backward(test);
    TwinRun upwards{Copies::at_once}, downwards{Copies::at_wait, Fibres::Order::downwards};
    const Gradients first = twin_gradients_at_once<TypeParam>(test, known, upwards);
    expect_close(first, known.gradients, TypeParam::gradient_tolerance);
    expect_same_bits(twin_gradients_at_once<TypeParam>(test, known, downwards), first);
  }
}

// Keys that a block's tile lacks have a score of 0, whose weight is infinite where all others' scores are low.
TYPED_TEST(CudaAllGradients, KeysThatAreLackingGiveNothing) {
  for (const Index head_dim : {16, 80}) {
    SCOPED_TRACE("D " + std::to_string(head_dim));
    BackwardCase test = long_backward_case(head_dim, TypeParam::type, TypeParam::precision, Band::all);
    const double amplitude = TypeParam::type == DType::float64 ? 64 : head_dim == 16 ? 16 : 6;
    std::fill(test.q.begin(), test.q.end(), amplitude);
    std::fill(test.k.begin(), test.k.end(), -amplitude);
    const BackwardAnswer known = naive_backward(test);
    TwinRun how;
    expect_close(twin_gradients_at_once<TypeParam>(test, known, how), known.gradients, TypeParam::gradient_tolerance);
  }
}

}  // namespace
}  // namespace annulus::test
