// The tensor-core kernels give the same bits however a comb is cut between granules, without a GPU
// (test_cuda_forward.cpp). Cuts inside granules give other bits, which shows that these tests can fail.
#include <gtest/gtest.h>

#include <string>

#include "kernels/cuda_backward_case.hpp"

#include "kernels/ordered_case.hpp"

namespace annulus::test {
namespace {

template <class Products>
StateBits state_of(const BackwardCase& test, kernels::ReferenceResult& answer) {
  TwinRun how;
  return state_by(
      test, answer, [&](const core::WorkList& list, const DeviceTensor(&qkv)[3], double scale, kernels::State& state) {
        Products::with_ordered_block(test.shape.head_dim,
                                     [&](auto block) { twin_attend<decltype(block)>(list, qkv, scale, state, how); });
      });
}

template <class Products>
class CudaOrdered : public testing::Test {
 public:
  /// 150 rows, the last granule not full, three heads that share keys.
  static BackwardCase test(bool causal, const Cuts& cuts) {
    return OrderedCase{150, causal}.with(Products::type, Products::precision, cuts);
  }
};
TYPED_TEST_SUITE(CudaOrdered, AllProducts);

TYPED_TEST(CudaOrdered, StatesHaveTheSameBitsForAnyCutBetweenGranules) {
  for (const bool causal : {false, true}) {
    kernels::ReferenceResult answer;
    const BackwardCase whole = this->test(causal, {});
    const StateBits expected = state_of<TypeParam>(whole, answer);
    expect_right(whole, answer, TypeParam::tolerance, name_of({}, causal));
    for (const Cuts& cuts : cuts_of_granules)
      EXPECT_EQ(state_of<TypeParam>(this->test(causal, cuts), answer), expected) << name_of(cuts, causal);
    Index differ = 0;
    for (const Cuts& cuts : other_cuts) differ += state_of<TypeParam>(this->test(causal, cuts), answer) != expected;
    EXPECT_GT(differ, 0) << "other cuts have the same bits, too: this test shows nothing";
  }
}

TYPED_TEST(CudaOrdered, GradientsHaveTheSameBitsForAnyCutBetweenGranules) {
  for (const bool causal : {false, true}) {
    const BackwardCase whole = this->test(causal, {});
    const BackwardAnswer known = naive_backward(whole);
    const auto gradients_for = [&](const Cuts& cuts) {
      TwinRun how;
      return twin_gradients<TypeParam>(this->test(causal, cuts), known, how);
    };
    const Gradients expected = gradients_for({});
    expect_close(expected, known.gradients, TypeParam::gradient_tolerance);
    for (const Cuts& cuts : cuts_of_granules) {
      SCOPED_TRACE(name_of(cuts, causal));
      expect_same_bits(gradients_for(cuts), expected);
    }
    Index dq = 0, dk = 0, dv = 0;
    for (const Cuts& cuts : other_cuts) {
      const Gradients other = gradients_for(cuts);
      dq += other.dq != expected.dq;
      dk += other.dk != expected.dk;
      dv += other.dv != expected.dv;
    }
    EXPECT_TRUE(dq > 0 && dk > 0 && dv > 0) << "other cuts have the same bits, too: this test shows nothing";
  }
}

TYPED_TEST(CudaOrdered, GradientsOfEveryHeadSizeAreRight) {
  for (const Index head_dim : TypeParam::backward_dims) {
    SCOPED_TRACE("D = " + std::to_string(head_dim));
    const OrderedCase rows{83, false, {1, 0, 2, 2, head_dim}};
    const BackwardCase whole = rows.with(TypeParam::type, TypeParam::precision, {});
    const BackwardAnswer known = naive_backward(whole);
    TwinRun how;
    const Gradients expected = twin_gradients<TypeParam>(whole, known, how);
    expect_close(expected, known.gradients, TypeParam::gradient_tolerance);
    const BackwardCase cut = rows.with(TypeParam::type, TypeParam::precision, {32});
    expect_same_bits(twin_gradients<TypeParam>(cut, known, how), expected);
  }
}

// Every block size, with head sizes that fill the block and with smaller ones.
TYPED_TEST(CudaOrdered, EveryHeadSizeIsRight) {
  for (const Index head_dim : TypeParam::head_dims) {
    OrderedCase rows{83, false, {1, 0, 2, 2, head_dim}};
    const BackwardCase whole = rows.with(TypeParam::type, TypeParam::precision, {});
    kernels::ReferenceResult answer;
    const StateBits expected = state_of<TypeParam>(whole, answer);
    expect_right(whole, answer, TypeParam::tolerance, "D = " + std::to_string(head_dim));
    EXPECT_EQ(state_of<TypeParam>(rows.with(TypeParam::type, TypeParam::precision, {32}), answer), expected)
        << "D = " << head_dim;
  }
}

}  // namespace
}  // namespace annulus::test
