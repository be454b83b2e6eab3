// The tensor-core forward pass against the definition, without a GPU: its block programs call a few primitives, of
// which twin.hpp has versions for the host.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "kernels/cuda_kinds.hpp"

#include "kernels/band_case.hpp"

namespace annulus::test {
namespace {

template <class Products>
class CudaForward : public testing::Test {
 public:
  static WorkCase awkward(Index head_dim, bool causal) {
    return awkward_case(head_dim, Products::type, Products::precision, causal);
  }
};
TYPED_TEST_SUITE(CudaForward, AllProducts);

TYPED_TEST(CudaForward, EveryHeadSize) {
  for (const Index head_dim : TypeParam::head_dims) {
    for (const bool causal : {false, true}) {
      if (!causal && head_dim > TypeParam::head_dims[0]) continue;
      const WorkCase test = this->awkward(head_dim, causal);
      TwinRun how;
      expect_right(test, TypeParam::twin(test, how), TypeParam::tolerance,
                   "D = " + std::to_string(head_dim) + (causal ? ", causal" : ""));
      EXPECT_EQ(how.bank_conflicts, 1) << "D = " << head_dim;
    }
  }
}

TYPED_TEST(CudaForward, SameBitsInAnyOrderOfThreadsAndCopies) {
  const WorkCase test = long_case(TypeParam::head_dims[0], TypeParam::type, TypeParam::precision, core::Band::upto);
  TwinRun first;
  const kernels::ReferenceResult expected = TypeParam::twin(test, first);
  expect_right(test, expected, TypeParam::tolerance, "long rows");
  for (const Copies copies : {Copies::at_once, Copies::at_wait}) {
    for (const Fibres::Order order : {Fibres::Order::upwards, Fibres::Order::downwards}) {
      TwinRun how{copies, order};
      const kernels::ReferenceResult actual = TypeParam::twin(test, how);
      EXPECT_EQ(actual.out, expected.out);
      EXPECT_EQ(actual.lse, expected.lse);
    }
  }
}

TYPED_TEST(CudaForward, BandsWithTwoEnds) {
  for (const core::Band& band : window_bands) {
    TwinRun how;
    const WorkCase test = with_band(this->awkward(TypeParam::head_dims[0], false), band);
    expect_right(test, TypeParam::twin(test, how), TypeParam::tolerance, name_of(band));
  }
}

TYPED_TEST(CudaForward, RowsSeeTheKeysAfterThem) {
  const WorkCase test = long_case(TypeParam::head_dims[0], TypeParam::type, TypeParam::precision, core::Band::after);
  TwinRun how;
  expect_right(test, TypeParam::twin(test, how), TypeParam::tolerance, "keys after the rows");
}

TYPED_TEST(CudaForward, RowsWithoutKeysAreZeroWithMinusInfinity) {
  const Index D = TypeParam::head_dims[0];
  const WorkCase test = this->awkward(D, true);
  TwinRun how;
  const kernels::ReferenceResult answer = TypeParam::twin(test, how);
  // Row 0 is in no item. Row 4 has comb index 3; its heads 2 and 3 get few_keys only, which begin at comb index 40.
  for (const Index number : {Index(0) * 4 + 1, Index(4) * 4 + 2}) {
    EXPECT_EQ(answer.lse[std::size_t(number)], -std::numeric_limits<double>::infinity()) << number;
    for (Index d = 0; d < D; ++d) EXPECT_EQ(answer.out[std::size_t(number * D + d)], 0.0) << number << " " << d;
  }
}

// The key's weight is 2^(score - m), with an even integer m, and is rounded: l must add up rounded weights, too.
TYPED_TEST(CudaForward, AKeyThatIsSeenAloneGivesItsValue) {
  WorkCase test;
  test.shape = {1, 0, 1, 1, TypeParam::head_dims[0]};
  test.query_rows = 61;
  test.key_rows = 1;
  test.type = TypeParam::type;
  test.precision = TypeParam::precision;
  test.calls.resize(1);
  test.calls[0].runs = {{0, 0, 1, 61}, {0, 0, 1, 1}};
  test.calls[0].items = {{{0, 1, 61}, {1, 1, 1}, 0, 0, 1, 1, core::Band::all}};
  test.fill();
  if (TypeParam::type == DType::float32) test.v = rounded(test.v, DType::bfloat16);  // exact as TF32
  TwinRun how;
  const kernels::ReferenceResult answer = TypeParam::twin(test, how);
  const double allowed = TypeParam::type == DType::float64 ? 1e-15 : TypeParam::type == DType::float32 ? 3e-7 : 0;
  for (std::size_t i = 0; i < answer.out.size(); ++i)
    ASSERT_NEAR(answer.out[i], test.v[i % test.v.size()], allowed * std::abs(test.v[i % test.v.size()])) << i;
}

// A GPU's NaN has the bits 0x7fffffff. If it were rounded to TF32 as numbers are, it would become 0.
TYPED_TEST(CudaForward, ANaNOfAGpuShows) {
  for (const bool in_values : {false, true}) {
    WorkCase test = this->awkward(TypeParam::head_dims[0], false);
    test.fill();
    std::vector<double>& numbers = in_values ? test.v : test.k;
    for (double& number : numbers) number = std::bit_cast<double>(0x7fffffffffffffffu);
    TwinRun how;
    const kernels::ReferenceResult answer = TypeParam::twin(test, how);
    const kernels::ReferenceResult expected = naive_answer(test);  // no NaN in rows without keys
    Index shown = 0;
    for (std::size_t i = 0; i < answer.out.size(); ++i) {
      ASSERT_EQ(std::isnan(answer.out[i]), std::isnan(expected.out[i])) << i;
      shown += std::isnan(answer.out[i]);
    }
    EXPECT_GT(shown, 0);
  }
}

TYPED_TEST(CudaForward, NothingButTheLargestScoreCounts) {
  WorkCase test = this->awkward(TypeParam::head_dims[0], true);
  test.fill(TypeParam::type == DType::float16 ? 1e3 : 1e30);
  if (TypeParam::type == DType::float32) {  // exact as TF32: rounding would choose another largest key
    test.q = rounded(test.q, DType::bfloat16);
    test.k = rounded(test.k, DType::bfloat16);
  }
  TwinRun how;
  // float16 allows only scores of about 1000, and float32 rounds a score of 1000 by up to 1e-4.
  const double allowed = TypeParam::type == DType::float16 ? 2e-2 : TypeParam::tolerance;
  expect_right(test, TypeParam::twin(test, how), allowed, "large scores");
}

TYPED_TEST(CudaForward, GoesOnFromThePortableKernelsState) {
  const WorkCase test = this->awkward(TypeParam::head_dims[0], true);
  TwinRun how;
  int call = 0;
  const auto answer = answer_by(
      test, [&](const core::WorkList& list, const DeviceTensor(&qkv)[3], double scale, kernels::State& state) {
        if (call++ == 0) {  // all products with sums of this type make the same states
          const core::Precision wanted = std::exchange(state.precision, core::default_precision(TypeParam::type));
          kernels::attend(kernels::Backend::device, list, {qkv[0].view, qkv[1].view, qkv[2].view, scale}, state);
          state.precision = wanted;
        } else {
          TypeParam::with_block(test.shape.head_dim,
                                [&](auto block) { twin_attend<decltype(block)>(list, qkv, scale, state, how); });
        }
      });
  expect_right(test, answer, TypeParam::tolerance, "half by each kernel");
}

// Matrix units truncate sums. A sum over thousands of keys that they made alone would be wrong by 1 part in 10^5.
TEST(CudaForwardNumbers, ThreeTf32SumsUpLongRowsAsFloatsAre) {
  const WorkCase test = long_rows(40, 8000);
  TwinRun how;
  expect_right(test, ThreeTf32Products::twin(test, how), 5e-7, "8,000 keys");
}

// All scores are +inf or -inf. Keys with +inf share the weight; a row with -inf only is like a row without keys.
TEST(CudaForwardNumbers, InfiniteScores) {
  WorkCase test = long_case(8, DType::bfloat16, core::Precision::float32, core::Band::upto);
  const auto only_first = [](std::vector<double>& vectors, double size) {
    for (std::size_t i = 0; i < vectors.size(); ++i) vectors[i] = i % 8 == 0 ? (vectors[i] < 0 ? -size : size) : 0;
  };
  only_first(test.q, 0x1p100);
  only_first(test.k, 0x1p100);
  TwinRun how;
  const kernels::ReferenceResult answer = BFloat16Products::twin(test, how);
  std::vector<double> sums(test.q.size(), 0), keys(test.q.size() / 8, 0);
  for_each_meeting(test, [&](std::size_t row, std::size_t key) {
    if (test.q[row * 8] * test.k[key * 8] < 0) return;
    ++keys[row];
    for (std::size_t d = 0; d < 8; ++d) sums[row * 8 + d] += test.v[key * 8 + d];
  });
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] /= std::max(1.0, keys[i / 8]);
  EXPECT_TRUE(close_to(answer.out, sums, BFloat16Products::tolerance));
}

}  // namespace
}  // namespace annulus::test
