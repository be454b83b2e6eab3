// The reference's gradients against numbers computed by hand and against differences of its own forward.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <string>

#include "support/attention_case.hpp"
#include "support/reference_attention.hpp"
#include "support/tolerance.hpp"

namespace annulus::kernels {
namespace {

using core::Index;
using Numbers = std::vector<double>;

// Two rows, D = 1, scale 1. Row 0 of q is 0, row 1 is 1. Keys 0 and ln 3, values 2 and 6, dout 1 and 10.
//   causal       row 0 sees key 0: P = 1, out = 2; dS = 1 (1*2 - 1*2) = 0
//                row 1 sees both: weights 1 and 3, P = 1/4 and 3/4, out = 5; dout.v - dout.out = 20 - 50, 60 - 50
//                dS = -30/4, 30/4
//   dq = 0 and sum dS k = 7.5 ln 3          dk = dS q = -7.5, 7.5          dv = 1*1 + 10/4, 30/4
TEST(ReferenceBackward, NumbersComputedByHand) {
  const core::Shape shape{1, 2, 1, 1, 1};
  const Numbers q{0, 1}, k{0, std::log(3.0)}, v{2, 6}, dout{1, 10};
  ReferencePattern pattern;
  pattern.causal = true;
  ReferenceGradients g = reference_backward(shape, pattern, q, k, v, dout);
  EXPECT_TRUE(test::close_to(g.dq, Numbers{0, 7.5 * std::log(3.0)}, 1e-14));
  EXPECT_TRUE(test::close_to(g.dk, Numbers{-7.5, 7.5}, 1e-14));
  EXPECT_TRUE(test::close_to(g.dv, Numbers{3.5, 7.5}, 1e-14));

  // dlse = 0 and 2 adds P dlse to dS: 2/4 and 6/4 in row 1.
  g = reference_backward(shape, pattern, q, k, v, dout, {0, 2});
  EXPECT_TRUE(test::close_to(g.dq, Numbers{0, 9 * std::log(3.0)}, 1e-14));
  EXPECT_TRUE(test::close_to(g.dk, Numbers{-7, 9}, 1e-14));
  EXPECT_TRUE(test::close_to(g.dv, Numbers{3.5, 7.5}, 1e-14));

  // Twice the same pair: every key counts twice, P of row 1 stays 1/4 and 3/4 in all. group_scale halves what comes
  // through out.
  pattern.pairs.push_back(pattern.pairs[0]);
  pattern.group_scale = true;
  g = reference_backward(shape, pattern, q, k, v, dout, {0, 2});
  EXPECT_TRUE(test::close_to(g.dq, Numbers{0, (3.75 + 1.5) * std::log(3.0)}, 1e-14));
  EXPECT_TRUE(test::close_to(g.dk, Numbers{-3.75 + 0.5, 3.75 + 1.5}, 1e-14));
  EXPECT_TRUE(test::close_to(g.dv, Numbers{1.75, 3.75}, 1e-14));

  // The scale 2 makes the second weight 9: P = 1/10 and 9/10, out = 5.6, dS = 10 (2 - 5.6) / 10 and its opposite.
  pattern = {};
  pattern.causal = true;
  pattern.scale = 2;
  g = reference_backward(shape, pattern, q, k, v, dout);
  EXPECT_TRUE(test::close_to(g.dq, Numbers{0, 2 * 3.6 * std::log(3.0)}, 1e-14));
  EXPECT_TRUE(test::close_to(g.dk, Numbers{-7.2, 7.2}, 1e-14));
  EXPECT_TRUE(test::close_to(g.dv, Numbers{2, 9}, 1e-14));
}

// The worked example's head 0, row 6: keys 4 5 6 and 0 2 4 6. With q = 0 all weights are multiplicities: P = 1/7 for
// 0, 2, 5 and 2/7 for 4 and 6. Only that row has a dout: dv is P.
TEST(ReferenceBackward, WorkedExample) {
  ReferencePattern pattern;
  pattern.pairs = {{4, 1}, {8, 2}};
  pattern.causal = true;
  const core::Shape shape{1, 10, 4, 4, 1};
  Numbers dout(40, 0.0), expected(40, 0.0);
  dout[6 * 4] = 7;
  for (const auto& [row, times] : {std::pair{0, 1}, {2, 1}, {4, 2}, {5, 1}, {6, 2}}) expected[row * 4] = times;
  const ReferenceGradients g = reference_backward(shape, pattern, Numbers(40, 0.0), Numbers(40, 1.0), dout, dout);
  EXPECT_TRUE(test::close_to(g.dv, expected, 1e-14));
}

TEST(ReferenceBackward, RowsWithoutKeysGiveAndGetZeros) {
  ReferencePattern pattern;
  pattern.pairs = {{4, 2}};  // row 1 is not picked
  const core::Shape shape{1, 2, 1, 1, 1};
  const ReferenceGradients g = reference_backward(shape, pattern, {1, 1}, {1, 1}, {5, 5}, {3, 1e300}, {2, 1e300});
  EXPECT_EQ(g.dq, (Numbers{2, 0}));  // row 0 sees itself alone: P = 1, dS = dlse
  EXPECT_EQ(g.dk, (Numbers{2, 0}));
  EXPECT_EQ(g.dv, (Numbers{3, 0}));
}

/// sum(dout * out) + sum(dlse * lse) over the rows that see a key.
double loss(const test::AttentionCase& problem, const Numbers& q, const Numbers& k, const Numbers& v,
            const Numbers& sink) {
  ReferencePattern pattern = problem.pattern;
  pattern.sink = sink;
  const ReferenceResult r = reference_forward(problem.shape, pattern, q, k, v);
  const Numbers dout = problem.dout(), dlse = problem.dlse();
  double sum = std::inner_product(dout.begin(), dout.end(), r.out.begin(), 0.0);
  for (std::size_t i = 0; i < dlse.size(); ++i) sum += std::isinf(r.lse[i]) ? 0.0 : dlse[i] * r.lse[i];
  return sum;
}

// Central differences of every input number, extrapolated (error of order step^4): exact to about 1e-11 here.
Numbers differences(const test::AttentionCase& problem, int which) {
  Numbers inputs[] = {problem.q(), problem.k(), problem.v(), problem.pattern.sink};
  Numbers slopes;
  for (double& x : inputs[which]) {
    const double middle = x;
    const auto slope = [&](double step) {
      x = middle + step;
      const double above = loss(problem, inputs[0], inputs[1], inputs[2], inputs[3]);
      x = middle - step;
      const double below = loss(problem, inputs[0], inputs[1], inputs[2], inputs[3]);
      x = middle;
      return (above - below) / (2 * step);
    };
    constexpr double step = 1e-3;
    slopes.push_back((4 * slope(step / 2) - slope(step)) / 3);
  }
  return slopes;
}

TEST(ReferenceBackward, EqualsDifferencesOfTheForward) {
  test::AttentionCase problem;
  problem.shape = {2, 13, 4, 2, 2};
  problem.type = core::DType::float64;
  problem.pattern.pairs = {{4, 1}, {8, 2}, {whole_document, 5}};
  problem.pattern.scale = 0.7;
  for (const auto semantics : {ReferenceSemantics::longnet, ReferenceSemantics::paper, ReferenceSemantics::grouped,
                               ReferenceSemantics::torchscale}) {
    for (const bool causal : {false, true}) {
      for (const auto& documents : {std::vector<Index>{}, std::vector<Index>{0, 3, 3, 13}}) {
        problem.pattern.semantics = semantics;
        problem.pattern.group_scale = semantics == ReferenceSemantics::grouped;
        problem.pattern.causal = causal;
        problem.pattern.documents = documents;
        problem.pattern.sink = causal ? Numbers{0.5, -1, 2, 0} : Numbers{};
        const ReferenceGradients g = problem.reference_gradients(true);
        const std::string what = std::to_string(int(semantics)) + (causal ? " causal " : " ") +
                                 std::to_string(documents.size()) + " documents";
        EXPECT_TRUE(test::close_to(g.dq, differences(problem, 0), 1e-9)) << "dq, " << what;
        EXPECT_TRUE(test::close_to(g.dk, differences(problem, 1), 1e-9)) << "dk, " << what;
        EXPECT_TRUE(test::close_to(g.dv, differences(problem, 2), 1e-9)) << "dv, " << what;
        if (causal) {
          EXPECT_TRUE(test::close_to(g.dsink, differences(problem, 3), 1e-9)) << "dsink, " << what;
        }
      }
    }
  }
}

}  // namespace
}  // namespace annulus::kernels
