// The device teams as a GPU runs them: 128 threads, each with its own block of the tile. Here the threads are fibres
// (fibres.hpp), which run in ascending and in descending order, so that a missing barrier gives wrong results. Results
// are compared with the definition, and bit by bit with those of teams on the host.
#include <gtest/gtest.h>

#include <string>

#include "kernels/awkward_case.hpp"
#include "kernels/device_backward_case.hpp"
#include "kernels/fibre_teams.hpp"
#include "kernels/statistics_case.hpp"
#include "support/tolerance.hpp"

namespace annulus::test {
namespace {

using core::Band;
using core::Precision;
using kernels::device::launch_attend;
using kernels::device::launch_attend_backward;
using kernels::device::launch_attend_statistics;

using Space = Kokkos::DefaultExecutionSpace;  // with the host's tuning table
constexpr int threads = GpuTuning::team_size;

class DeviceFibres : public testing::TestWithParam<Fibres::Order> {
 public:
  DeviceFibres() { FibreSpace::order = GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Orders, DeviceFibres, testing::Values(Fibres::Order::upwards, Fibres::Order::downwards));

TEST_P(DeviceFibres, Forward) {
  struct Kind {
    DType type;
    Precision precision;
  };
  for (const Kind kind : {Kind{DType::bfloat16, Precision::float32},
                          {DType::float32, Precision::float32},
                          {DType::float64, Precision::float64}}) {
    for (const Index head_dim : {5, 64, 80, 256}) {
      for (const bool causal : {false, true}) {
        SCOPED_TRACE(fmt::format("{}, D {}, {}", core::name_of(kind.type), head_dim, causal ? "causal" : "all"));
        const WorkCase test = awkward_case(head_dim, kind.type, kind.precision, causal);
        const kernels::ReferenceResult expected = naive_answer(test);
        const auto actual = answer_on<Space>(test, [](const auto& list, const auto& operands, auto& state) {
          launch_attend<FibreSpace, GpuTuning>(list, operands, state, {}, threads);
        });
        EXPECT_TRUE(close_to(actual.out, expected.out, core::forward_tolerance(kind.type)));
        EXPECT_TRUE(close_to(actual.lse, expected.lse, core::forward_tolerance(kind.type)));
        const auto one = answer_on<Space>(test, [](const auto& list, const auto& operands, auto& state) {
          kernels::attend(kernels::Backend::device, list, operands, state);
        });
        EXPECT_EQ(actual.out, one.out);
        EXPECT_EQ(actual.lse, one.lse);
      }
    }
  }
}

TEST_P(DeviceFibres, Gradients) {
  for (const Precision precision : {Precision::float32, Precision::float64}) {
    for (const Index head_dim : {20, 80, 256}) {
      for (const Band mask : {Band::all, Band::upto, Band::after}) {
        SCOPED_TRACE(fmt::format("{}, D {}, mask {}", core::name_of(precision), head_dim, name_of(mask)));
        const BackwardCase test = awkward_backward_case(head_dim, core::type_of(precision), precision, mask);
        const BackwardAnswer known = naive_backward(test);
        const Gradients actual = gradients_by(test, known, [&](const auto& list, const BackwardTensors& tensors) {
          launch_attend_backward<FibreSpace, GpuTuning>(list, test.shape, precision, tensors.operands(test),
                                                        tensors.gradients(), {}, threads);
        });
        expect_close(actual, known.gradients, core::gradient_tolerance(core::type_of(precision)));
        const Gradients one = gradients_by(test, known, [&](const auto& list, const BackwardTensors& tensors) {
          kernels::attend_backward(kernels::Backend::device, list, test.shape, test.query_rows, precision,
                                   tensors.operands(test), tensors.gradients());
        });
        EXPECT_EQ(actual.dq, one.dq);
        EXPECT_EQ(actual.dk, one.dk);
        EXPECT_EQ(actual.dv, one.dv);
      }
    }
  }
}

TEST_P(DeviceFibres, Statistics) {
  for (const Band mask : {Band::all, Band::upto, Band::after}) {
    const Precision precision = Precision::float32;
    SCOPED_TRACE(name_of(mask));
    const WorkCase test = statistics_case(40, mask, DType::float32, precision);
    const std::vector<double> lse = naive_answer(test).lse;
    const auto attend = [&](const auto& list, const auto& operands, const auto& views) {
      launch_attend_statistics<FibreSpace, GpuTuning>(list, test.shape, test.query_rows, precision, operands, views, {},
                                                      threads);
    };
    expect_close(made_statistics(test, lse, 5, attend), naive_statistics(test, lse, 5),
                 core::forward_tolerance(test.type));
  }
}

}  // namespace
}  // namespace annulus::test
