// Values of another head size than keys on the host, against the definition, on every instruction set this machine has.
#include "annulus/core/error.hpp"
#include "kernels/awkward_case.hpp"
#include "kernels/host_backward_case.hpp"
#include "kernels/unseen_case.hpp"

namespace annulus::test {
namespace {

using core::Band;
using core::Precision;

struct Dims {
  Index keys, values;
};
/// Fewer and more columns of values than of keys, one column, and sizes of latent attention (192/128, 576/512).
constexpr Dims all_dims[] = {{1, 3},  {3, 1},   {7, 33},    {33, 7},    {16, 15},   {40, 64},
                             {64, 1}, {72, 40}, {192, 128}, {128, 192}, {257, 256}, {576, 512}};

TEST(HostValues, EveryPairOfHeadSizesInEveryType) {
  for (const auto& [D, Dv] : all_dims) {
    for (const auto& [type, precision] : types_and_precisions()) {
      if (D > 100 && type == DType::float16) continue;
      BackwardCase test = backward_case(53, 61, D, D % 2 == 0 ? Band::upto : Band::all, Dv);
      test.type = type;
      test.precision = precision;
      test.fill_all();
      expect_both_passes(test, "plain");
    }
  }
}

TEST(HostValues, AwkwardMapsAndMasks) {
  for (const auto& [type, precision] : types_and_precisions()) {
    for (const Band& band : {Band::all, Band::upto, Band::after, Band{20, 5}}) {
      for (const auto& [D, Dv] : {Dims{24, 9}, {9, 24}})
        expect_both_passes(awkward_backward_case(D, type, precision, band, Dv), name_of(band));
    }
  }
}

TEST(HostValues, LongRowsCrossTilesChunksAndTasks) {
  for (const auto& [D, Dv] : {Dims{64, 24}, {24, 64}}) {
    BackwardCase test = backward_case(1203, 1203, D, Band::upto, Dv);
    test.type = DType::float64;
    test.precision = Precision::float64;
    test.fill_all();
    expect_both_passes(test, "long");
  }
}

TEST(HostValues, GradientsOfTheDefinitionAreDerivatives) {
  for (const auto& [D, Dv] : {Dims{5, 2}, {2, 5}}) {
    BackwardCase test = backward_case(7, 6, D, Band::all, Dv);
    test.type = DType::float64;
    test.precision = Precision::float64;
    test.fill_all();
    expect_derivatives(test);
  }
}

TEST(HostValues, RowsThatAreNotSeenStayOut) {
  for (const auto& [type, precision] : types_and_precisions()) {
    for (const InstructionSet set : kernels::host::usable_instruction_sets()) {
      for (const auto& [D, Dv] : {Dims{5, 18}, {72, 9}}) {
        const std::string what = fmt::format("{}, {}, D {} {}", name_of(set), name_of(precision), D, Dv);
        expect_unseen_stay_out(awkward_case(D, type, precision, true, Dv), what,
                               [&](const WorkCase& one) { return host_answer(one, set); });
        const BackwardCase test = awkward_backward_case(D, type, precision, Band::upto, Dv);
        const kernels::ReferenceResult forward = stored_forward(test);
        expect_unseen_stay_out_of_gradients(
            test, what, [&](const BackwardCase& one) { return host_gradients(one, forward, {set}); });
      }
    }
  }
}

// k is passed as v, too: values are the first Dv columns of the keys, and v is not stored.
TEST(HostValues, AreColumnsOfKeys) {
  constexpr Index D = 72, Dv = 64, rows = 53, keys = 61;
  for (const auto& [type, precision] : types_and_precisions()) {
    HostCase test = plain_case(rows, keys, D, false, Dv);
    test.type = type;
    test.precision = precision;
    test.fill();
    for (Index i = 0; i < keys * Dv; ++i) test.v[std::size_t(i)] = test.k[std::size_t(i / Dv * D + i % Dv)];
    for (const InstructionSet set : kernels::host::usable_instruction_sets()) {
      const DeviceTensor q = to_device(test.q, type, rows, 1, D), k = to_device(test.k, type, keys, 1, D);
      kernels::State state(test.shape, rows, precision);
      kernels::host::host_attend(test.calls[0], {q.view, k.view, k.view, test.scale()}, state, {}, set);
      const DeviceTensor out = to_device(std::vector<double>(rows * Dv, 1234.0), type, rows, 1, Dv),
                         lse = to_device(std::vector<double>(rows, 1234.0), core::lse_type(type), rows, 1, 1);
      kernels::host::host_finish(state, {out.view, lse.view}, 1, set);
      EXPECT_EQ(from_device(out.buffer, rows * Dv, type), host_answer(test, set).out)
          << name_of(set) << ", " << name_of(type) << " in " << name_of(precision);
    }
  }
}

TEST(HostValues, OfKeysAlikeAreNoOtherProblem) {
  core::Shape shape{1, 10, 2, 1, 64};
  shape.set_value_dim(64);
  EXPECT_EQ(shape, (core::Shape{1, 10, 2, 1, 64}));
  EXPECT_EQ(kernels::host::why_not_matrix(shape), "");
  shape.set_value_dim(48);
  EXPECT_EQ(shape.dim_of_values(), 48);
  EXPECT_NE(kernels::host::why_not_matrix(shape), "");
}

TEST(HostValues, OtherBackEndsRefuseThem) {
  kernels::State state({1, 1, 1, 1, 4, 3}, 1, Precision::float32);
  EXPECT_THROW(kernels::attend(kernels::Backend::device, {}, {}, state), core::Error);
  EXPECT_THROW(kernels::attend_backward(kernels::Backend::device, {}, state.shape, 1, Precision::float32, {}, {}),
               core::Error);
}

}  // namespace
}  // namespace annulus::test
