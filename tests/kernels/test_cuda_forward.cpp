// The tensor-core forward pass against the definition, without a GPU: its block programs run on the host's twins of the
// primitives they are written in.
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "annulus/kernels/cuda/forward_block.hpp"
#include "kernels/awkward_case.hpp"
#include "kernels/cuda_case.hpp"
#include "support/tolerance.hpp"

namespace annulus::test {
namespace {

using core::Precision;
using namespace kernels::cuda;

void expect_right(const WorkCase& test, const kernels::ReferenceResult& actual, double allowed,
                  const std::string& what) {
  const kernels::ReferenceResult expected = naive_answer(test);
  EXPECT_TRUE(close_to(actual.out, expected.out, allowed)) << "out, " << what;
  EXPECT_TRUE(close_to(actual.lse, expected.lse, allowed)) << "lse, " << what;
}

/// One kind of products, and the head sizes its blocks are made for.
template <template <class, int> class Engine, class Number, DType stored, const auto& table>
struct Kind {
  static constexpr DType type = stored;
  static constexpr Precision precision = core::default_precision(stored);
  static constexpr int numbers_of_16_bytes = 16 / int(sizeof(Number));

  /// Calls visit(block) with the block that the launch would take.
  template <std::size_t entry = 0, class Visit>
  static void with_block(Index head_dim, const Visit& visit) {
    if (head_dim <= table[entry].columns) return visit(ForwardBlock<Engine, Number, table[entry]>{});
    if constexpr (entry + 1 < std::size(table)) with_block<entry + 1>(head_dim, visit);
  }
  static kernels::ReferenceResult twin(const WorkCase& test, TwinRun& how) {
    kernels::ReferenceResult answer;
    with_block(test.shape.head_dim, [&](auto block) { answer = twin_answer<decltype(block)>(test, how); });
    return answer;
  }
};
/// head_dims: each size of blocks once; what engines share is left to the first one.
struct BFloat16Products : Kind<Engine16, core::BFloat16, DType::bfloat16, sizes_16> {
  static constexpr double tolerance = core::forward_tolerance(DType::bfloat16);
  static constexpr Index head_dims[] = {8, 40, 64, 80, 128, 192, 256};
};
struct Float16Products : Kind<Engine16, core::Half, DType::float16, sizes_16> {
  static constexpr double tolerance = core::forward_tolerance(DType::float16);
  static constexpr Index head_dims[] = {32, 128};
};
/// Ten bits of mantissa, as float16 has.
struct Tf32Products : Kind<EngineTf32, float, DType::float32, sizes_32> {
  static constexpr double tolerance = core::forward_tolerance(DType::float16);
  static constexpr Index head_dims[] = {4, 64, 80, 256};
};
struct ThreeTf32Products : Kind<Engine3xTf32, float, DType::float32, sizes_32> {
  static constexpr double tolerance = core::forward_tolerance(DType::float32);
  static constexpr Index head_dims[] = {32, 64};
};
struct Float64Products : Kind<Engine64, double, DType::float64, sizes_64> {
  static constexpr double tolerance = core::forward_tolerance(DType::float64);
  static constexpr Index head_dims[] = {2, 40, 80};
};

template <class Products>
class CudaForward : public testing::Test {
 public:
  static WorkCase awkward(Index head_dim, bool causal) {
    return awkward_case(head_dim, Products::type, Products::precision, causal);
  }
};
using AllProducts =
    testing::Types<BFloat16Products, Float16Products, Tf32Products, ThreeTf32Products, Float64Products>;
TYPED_TEST_SUITE(CudaForward, AllProducts);

/// Several blocks of queries and tiles of keys: a comb of every third row, causal.
WorkCase long_case(Index head_dim, DType type, core::Mask mask) {
  WorkCase test;
  test.shape = {1, 0, 1, 1, head_dim};
  test.query_rows = 420;
  test.key_rows = 900;
  test.type = type;
  test.precision = core::default_precision(type);
  test.calls.resize(1);
  test.calls[0].runs = {{100, 5, 2, 150}, {20, 10, 3, 280}};
  test.calls[0].items = {{{0, 1, 150}, {1, 1, 280}, 0, 0, 1, 1, mask}};
  test.fill();
  return test;
}

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
  const WorkCase test = long_case(TypeParam::head_dims[0], TypeParam::type, core::Mask::upto);
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

TYPED_TEST(CudaForward, RowsSeeTheKeysAfterThem) {
  const WorkCase test = long_case(TypeParam::head_dims[0], TypeParam::type, core::Mask::after);
  TwinRun how;
  expect_right(test, TypeParam::twin(test, how), TypeParam::tolerance, "keys after the rows");
}

TYPED_TEST(CudaForward, RowsWithoutKeysAreZeroWithMinusInfinity) {
  const Index D = TypeParam::head_dims[0];
  const WorkCase test = this->awkward(D, true);
  TwinRun how;
  const kernels::ReferenceResult answer = TypeParam::twin(test, how);
  // Row 0 is in no item. Row 4 is comb index 3; heads 2 and 3 are shown few_keys only, whose first comb index is 40.
  for (const Index number : {Index(0) * 4 + 1, Index(4) * 4 + 2}) {
    EXPECT_EQ(answer.lse[std::size_t(number)], -std::numeric_limits<double>::infinity()) << number;
    for (Index d = 0; d < D; ++d) EXPECT_EQ(answer.out[std::size_t(number * D + d)], 0.0) << number << " " << d;
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
  // float32 keeps a score of 1000 to 1e-4 only; float16 takes no larger numbers.
  const double allowed = TypeParam::type == DType::float16 ? 2e-2 : TypeParam::tolerance;
  expect_right(test, TypeParam::twin(test, how), allowed, "large scores");
}

TYPED_TEST(CudaForward, GoesOnFromThePortableKernelsState) {
  const WorkCase test = this->awkward(TypeParam::head_dims[0], true);
  TwinRun how;
  int call = 0;
  const auto answer = answer_by(test, [&](const core::WorkList& list, const DeviceTensor(&qkv)[3], double scale,
                                          kernels::State& state) {
    if (call++ == 0) {
      kernels::attend(kernels::Backend::device, list, {qkv[0].view, qkv[1].view, qkv[2].view, scale}, state);
    } else {
      TypeParam::with_block(test.shape.head_dim,
                            [&](auto block) { twin_attend<decltype(block)>(list, qkv, scale, state, how); });
    }
  });
  expect_right(test, answer, TypeParam::tolerance, "half by each kernel");
}

// Keys of score +inf share the weight, others have none; a row that has none of them is as one that saw no key.
TEST(CudaForwardNumbers, InfiniteScores) {
  WorkCase test = long_case(8, DType::bfloat16, core::Mask::upto);
  const auto only_first = [](std::vector<double>& vectors, double size) {
    for (std::size_t i = 0; i < vectors.size(); ++i)
      vectors[i] = i % 8 == 0 ? (vectors[i] < 0 ? -size : size) : 0;
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
