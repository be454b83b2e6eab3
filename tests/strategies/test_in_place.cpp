// Sums of gradients become results in the same memory, on several threads: no row is written before it was read.
#include <gtest/gtest.h>

#include <array>
#include <numbers>

#include "annulus/strategies/backward_computation.hpp"
#include "support/attention_case.hpp"
#include "support/tolerance.hpp"

namespace annulus::strategies {
namespace {

using core::DType;
using core::Precision;

/// Whole numbers that 16 bits can represent, different for each row: every three numbers are the digits of their place.
std::vector<double> numbered(Index count) {
  constexpr std::array<Index, 3> radix{1, 251, 251 * 251};
  std::vector<double> values(static_cast<std::size_t>(count));
  for (Index i = 0; i < count; ++i) values[std::size_t(i)] = double(1 + i / 3 / radix[std::size_t(i % 3)] % 251);
  return values;
}

TEST(GradientsInPlace, EveryNumberComesToItsPlace) {
  for (const auto& [type, precision] :
       {std::pair{DType::bfloat16, Precision::float32}, std::pair{DType::float16, Precision::float64},
        std::pair{DType::float32, Precision::float64}, std::pair{DType::float32, Precision::float32},
        std::pair{DType::float64, Precision::float32}}) {
    for (const Index rows : {0, 1, 2, 3, 70, 3001}) {
      SCOPED_TRACE(fmt::format("{} from {}, {} rows", name_of(type), name_of(precision), rows));
      Problem problem;
      problem.shape = {2, rows, 2, 2, 24};
      problem.type = type;
      problem.precision = precision;
      problem.backend = kernels::default_backend();
      problem.scale = 0.125;
      // finish_keys() multiplies dk by the factor that kernels leave out: the scale on a device, ln 2 on a host.
      const double unit = problem.backend == kernels::Backend::device ? problem.scale : std::numbers::ln2;
      const Index each = problem.shape.batch * rows * problem.shape.kv_heads * problem.shape.head_dim;
      const std::vector<double> expected = numbered(2 * each);
      std::vector<double> values = expected;
      for (Index i = 0; i < each; ++i) values[std::size_t(i)] /= unit;
      for (int again = 0; again < 5; ++again) {
        const test::DeviceTensor sums = test::to_device(values, problem.sum_type(), rows, 2, 24);
        core::HopMetrics metrics;
        const core::Buffer results = finish_keys(problem, rows, sums.buffer, metrics);
        EXPECT_EQ(results.bytes(), 2 * each * Index(core::bytes_of(type)));
        // Different numbers differ by 1, or by 1/251 of the largest.
        EXPECT_TRUE(test::close_to(test::from_device(results, 2 * each, type), expected, 1e-4));
      }
    }
  }
}

}  // namespace
}  // namespace annulus::strategies
