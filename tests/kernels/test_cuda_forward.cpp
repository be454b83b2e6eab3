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
struct BFloat16Products : Kind<Engine16, core::BFloat16, DType::bfloat16, sizes_16> {
  static constexpr double tolerance = core::forward_tolerance(DType::bfloat16);
};
struct Float16Products : Kind<Engine16, core::Half, DType::float16, sizes_16> {
  static constexpr double tolerance = core::forward_tolerance(DType::float16);
};
/// Ten bits of mantissa, as float16 has.
struct Tf32Products : Kind<EngineTf32, float, DType::float32, sizes_32> {
  static constexpr double tolerance = core::forward_tolerance(DType::float16);
};
struct ThreeTf32Products : Kind<Engine3xTf32, float, DType::float32, sizes_32> {
  static constexpr double tolerance = core::forward_tolerance(DType::float32);
};
struct Float64Products : Kind<Engine64, double, DType::float64, sizes_64> {
  static constexpr double tolerance = core::forward_tolerance(DType::float64);
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

TYPED_TEST(CudaForward, EveryHeadSize) {
  for (const Index head_dim : {8, 40, 64, 80, 128, 192, 256}) {
    for (const bool causal : {false, true}) {
      TypeParam::with_block(head_dim, [&](auto block) {
        const WorkCase test = this->awkward(head_dim, causal);
        TwinRun how;
        const auto start = std::chrono::steady_clock::now();
        expect_right(test, twin_answer<decltype(block)>(test, how), TypeParam::tolerance,
                     "D = " + std::to_string(head_dim) + (causal ? ", causal" : ""));
        EXPECT_EQ(how.bank_conflicts, 1) << "D = " << head_dim;
        std::printf("D %d %.2f s\n", int(head_dim), std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
      });
    }
  }
}

}  // namespace
}  // namespace annulus::test
