// The tensor-core backward pass against the definition, without a GPU (how: test_cuda_forward.cpp).
#include <gtest/gtest.h>

#include <string>

#include "kernels/cuda_backward_case.hpp"

#include "kernels/band_case.hpp"

namespace annulus::test {
namespace {

using core::Band;

template <class Products>
class CudaBackward : public testing::Test {};
TYPED_TEST_SUITE(CudaBackward, AllProducts);

TYPED_TEST(CudaBackward, EveryHeadSizeAndMask) {
  for (const Index head_dim : TypeParam::backward_dims) {
    for (const Band mask : {Band::all, Band::upto, Band::after}) {
      if (mask != Band::upto && head_dim != TypeParam::backward_dims[0]) continue;
      SCOPED_TRACE("D " + std::to_string(head_dim) + ", mask " + name_of(mask));
      const BackwardCase test = awkward_backward_case(head_dim, TypeParam::type, TypeParam::precision, mask);
      const BackwardAnswer known = naive_backward(test);
      TwinRun how;
      expect_close(twin_gradients<TypeParam>(test, known, how), known.gradients, TypeParam::gradient_tolerance);
      EXPECT_EQ(how.bank_conflicts, 1);
    }
  }
}

TYPED_TEST(CudaBackward, BandsWithTwoEnds) {
  for (const Band& band : window_bands) {
    SCOPED_TRACE(name_of(band));
    const Index head_dim = TypeParam::backward_dims[0];
    const BackwardCase test =
        with_band(awkward_backward_case(head_dim, TypeParam::type, TypeParam::precision, Band::all), band);
    const BackwardAnswer known = naive_backward(test);
    TwinRun how;
    expect_close(twin_gradients<TypeParam>(test, known, how), known.gradients, TypeParam::gradient_tolerance);
  }
}

// Two head sizes: for the smaller one warp computes dk and dv, for the larger a pair of warps does.
TYPED_TEST(CudaBackward, SameBitsInAnyOrderOfThreadsAndCopies) {
  for (const Index head_dim : {16, 80}) {
    SCOPED_TRACE("D " + std::to_string(head_dim));
    const BackwardCase test = long_backward_case(head_dim, TypeParam::type, TypeParam::precision, Band::upto);
    const BackwardAnswer known = naive_backward(test);
    TwinRun first;
    const Gradients expected = twin_gradients<TypeParam>(test, known, first);
    expect_close(expected, known.gradients, TypeParam::gradient_tolerance);
    for (const Copies copies : {Copies::at_once, Copies::at_wait}) {
      for (const Fibres::Order order : {Fibres::Order::upwards, Fibres::Order::downwards}) {
        if (copies == first.copies && order == first.order) continue;
        TwinRun how{copies, order};
        expect_same_bits(twin_gradients<TypeParam>(test, known, how), expected);
      }
    }
  }
}

// Rows whose lse is minus infinity contribute nothing to gradients, whatever their delta is: here NaN.
TYPED_TEST(CudaBackward, RowsThatSawNoKeyGiveNothing) {
  const BackwardCase test = long_backward_case(16, TypeParam::type, TypeParam::precision, Band::upto);
  BackwardAnswer known = naive_backward(test);
  Index empty = 0;
  for (std::size_t row = 0; row < known.lse.size(); ++row) {
    if (!std::isinf(known.lse[row])) continue;
    known.delta[row] = std::numeric_limits<double>::quiet_NaN();
    ++empty;
  }
  EXPECT_GT(empty, 0);
  TwinRun how;
  expect_close(twin_gradients<TypeParam>(test, known, how), known.gradients, TypeParam::gradient_tolerance);
}

// Matrix units truncate sums. If they alone added up all terms, errors would be larger than those of floats.
TEST(CudaBackwardNumbers, ThreeTf32SumsUpManyQueriesAsFloatsAre) {
  const BackwardCase test = many_queries_case();
  const BackwardAnswer known = naive_backward(test);
  TwinRun how;
  expect_close(twin_gradients<ThreeTf32Products>(test, known, how), known.gradients, 2e-6);
}

}  // namespace
}  // namespace annulus::test
