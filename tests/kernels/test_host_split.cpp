// Precisions 3xbfloat16 and 6xbfloat16 (kernels/host/amx/split.hpp) against the definition. That every matrix unit has
// the same bits is tested in test_host_matrix.cpp.
#include <gtest/gtest.h>

#include "kernels/matrix_case.hpp"
#include "kernels/unseen_case.hpp"

namespace annulus::test {
namespace {

using core::Band;
using core::Precision;

const MatrixKind three{DType::float32, Precision::three_bfloat16}, six{DType::float32, Precision::six_bfloat16},
    halves{DType::float16, Precision::three_bfloat16};

/// How far results of a kind may be from the definition. Storing results as float16 rounds them.
double forward_limit(const MatrixKind& kind) {
  return kind.type == DType::float16 ? 3e-3 : kind.precision == Precision::six_bfloat16 ? 3e-6 : 1e-4;
}
double gradient_limit(const MatrixKind& kind) { return kind.precision == Precision::six_bfloat16 ? 1e-5 : 3e-4; }

void expect_right(const BackwardCase& test, const std::string& what) {
  const MatrixKind kind{test.type, test.precision};
  SCOPED_TRACE(fmt::format("{}, {}", kind.name(), what));
  const kernels::ReferenceResult expected = naive_answer(test), forward = stored_forward(test);
  const kernels::ReferenceResult actual = host_answer(test, InstructionSet::amx);
  EXPECT_TRUE(close_to(actual.out, expected.out, forward_limit(kind))) << "out";
  EXPECT_TRUE(close_to(actual.lse, expected.lse, forward_limit({DType::float32, kind.precision}))) << "lse";
  expect_close(host_gradients(test, forward, {InstructionSet::amx}), naive_gradients(test, forward),
               gradient_limit(kind));
}

TEST(HostSplit, IsRightForEveryHeadSizeAndBand) {
  for (const MatrixKind& kind : {three, six, halves})
    for (const Index D : {1, 16, 33, 64, 80, 128, 256})
      for (const Band& band : {Band::all, Band::upto, Band{40, 25}})
        expect_right(gradients_in(kind, 131, 331, D, band), fmt::format("D {}, band {}", D, name_of(band)));
}

TEST(HostSplit, IsRightForLargeScores) {
  // Scores of several hundred: few keys of a row have a noticeable weight, and m rises often. For float16, kernels and
  // definition use the same q, which is rounded to float16.
  for (const MatrixKind& kind : {three, six, halves}) {
    BackwardCase test = gradients_in(kind, 100, 400, 64, Band::all, 30);
    SCOPED_TRACE(kind.name());
    const double growth = kind.precision == Precision::six_bfloat16 ? 10 : 60;  // errors of scores grow with them
    const kernels::ReferenceResult expected = naive_answer(test), actual = host_answer(test, InstructionSet::amx);
    EXPECT_TRUE(close_to(actual.out, expected.out, growth * forward_limit({DType::float32, kind.precision})));
    EXPECT_TRUE(close_to(actual.lse, expected.lse, forward_limit({DType::float32, kind.precision}) / 10));
  }
}

/// Windows whose edges are not at a multiple of 64 keys: a group of rows has steps in which some rows see their first
/// key and the scores of others rise by more than m's headroom. Products of bfloat16 take the same steps.
TEST(HostSplit, RowsBeginInDifferentSteps) {
  for (const MatrixKind& kind : matrix_kinds)
    for (const Band& band : {Band{40, 20}, Band{90, -1}})
      for (const double amplitude : {6., 30.}) {
        const WorkCase test = in_kind(kind, with_band(plain_case(128, 128, 16, false), band), amplitude);
        const kernels::ReferenceResult expected = naive_answer(test), actual = host_answer(test, InstructionSet::amx);
        SCOPED_TRACE(fmt::format("{}, band {}, amplitude {}", kind.name(), name_of(band), amplitude));
        const double limit = kind.precision == Precision::bfloat16 ? 2e-2 : 3e-3;
        EXPECT_TRUE(close_to(actual.out, expected.out, limit * amplitude / 6)) << "out";
        EXPECT_TRUE(close_to(actual.lse, expected.lse, limit)) << "lse";
      }
}

/// Calls that compute only dq (as strategy stream does), or only dk and dv, give the same bits as calls that compute
/// all.
TEST(HostSplit, GradientsOfOneSide) {
  for (const MatrixKind& kind : matrix_kinds)
    for (const Index D : {16, 72}) {
      const BackwardCase test = gradients_in(kind, 700, 700, D, Band::upto);
      const kernels::ReferenceResult forward = stored_forward(test);
      const kernels::host::MatrixUnit& unit = kernels::host::usable_matrix_units().back();
      const Gradients all = gradients_by(test, forward, unit);
      expect_same(gradients_by(test, forward, unit, false, Wanted::queries).dq, all.dq, kind.name() + ", dq alone");
      const Gradients keys = gradients_by(test, forward, unit, false, Wanted::keys);
      expect_same(keys.dk, all.dk, kind.name() + ", dk without dq");
      expect_same(keys.dv, all.dv, kind.name() + ", dv without dq");
    }
}

TEST(HostSplit, SixProductsAreAsExactAsFloat) {
  // Compares the largest errors of out and of gradients with those of float32 products.
  for (const double amplitude : {1., 8.}) {
    BackwardCase test = gradients_in(six, 300, 700, 64, Band::all, amplitude);
    const kernels::ReferenceResult expected = naive_answer(test), forward = stored_forward(test);
    const Gradients gradients = naive_gradients(test, forward);
    const auto worst = [&](Precision precision) {
      test.precision = precision;
      const kernels::ReferenceResult actual = host_answer(test, InstructionSet::amx);
      const Gradients made = host_gradients(test, forward, {InstructionSet::amx});
      return std::array{error_of(actual.out, expected.out), error_of(made.dq, gradients.dq),
                        error_of(made.dk, gradients.dk), error_of(made.dv, gradients.dv)};
    };
    const auto split = worst(Precision::six_bfloat16), plain = worst(Precision::float32);
    for (std::size_t i = 0; i < split.size(); ++i)
      EXPECT_LE(split[i], 2 * plain[i] + 1e-6) << "result " << i << ", amplitude " << amplitude;
  }
}

TEST(HostSplit, ARowThatSeesOneKeyGetsItsValue) {
  for (const MatrixKind& kind : {three, six}) {
    const WorkCase test = in_kind(kind, with_band(plain_case(40, 40, 32, false), Band{0, 0}));
    const kernels::ReferenceResult actual = host_answer(test, InstructionSet::amx);
    EXPECT_TRUE(close_to(actual.out, test.v, kind.precision == Precision::six_bfloat16 ? 2e-7 : 3e-5)) << kind.name();
  }
}

TEST(HostSplit, LargeAndInfiniteValues) {
  // Rounded to bfloat16, the largest numbers of float32 would be infinite. The mean of such values is finite.
  const double large = 3.396e38, infinity = std::numeric_limits<double>::infinity();
  for (const MatrixKind& kind : {three, six}) {
    SCOPED_TRACE(kind.name());
    WorkCase test = in_kind(kind, plain_case(5, 100, 16, false));
    for (std::size_t i = 0; i < test.v.size(); i += 16) test.v[i] = large;  // column 0 of every key
    kernels::ReferenceResult actual = host_answer(test, InstructionSet::amx);
    for (std::size_t row = 0; row < 5; ++row) EXPECT_NEAR(actual.out[row * 16] / large, 1, 1e-4);
    for (std::size_t i = 1; i < test.v.size(); i += 16) test.v[i] = -infinity;  // column 1
    actual = host_answer(test, InstructionSet::amx);
    for (std::size_t row = 0; row < 5; ++row) {
      EXPECT_NEAR(actual.out[row * 16] / large, 1, 1e-4);
      EXPECT_EQ(actual.out[row * 16 + 1], -infinity);
    }
  }
}

TEST(HostSplit, UnseenRowsStayOut) {
  for (const MatrixKind& kind : {three, six, halves}) {
    for (const Index D : {1, 72}) {
      const WorkCase test = awkward_case(D, kind.type, kind.precision, true);
      expect_unseen_stay_out(test, fmt::format("{}, D {}", kind.name(), D),
                             [&](const WorkCase& one) { return host_answer(one, InstructionSet::amx); });
    }
    for (const auto& [D, mask] : {std::pair<Index, Band>{5, Band::upto}, {24, Band::after}}) {
      const BackwardCase test = awkward_backward_case(D, kind.type, kind.precision, mask);
      const kernels::ReferenceResult forward = stored_forward(test);
      expect_unseen_stay_out_of_gradients(
          test, fmt::format("{}, D {}, backward", kind.name(), D),
          [&](const BackwardCase& one) { return host_gradients(one, forward, {InstructionSet::amx}); });
    }
  }
}

/// What matrix units cannot compute is computed with products of float32, and has their bits.
TEST(HostSplit, TheRestIsComputedInFloat) {
  WorkCase split = in_kind(three, plain_case(70, 130, 32, true));
  split.shape.value_dim = 16;
  split.v = random_values(core::TensorId::v, split.value_numbers(), split.type);
  WorkCase plain = split;
  plain.precision = Precision::float32;
  expect_same(host_answer(split, InstructionSet::amx).out, host_answer(plain, InstructionSet::amx).out, "out");
}

}  // namespace
}  // namespace annulus::test
