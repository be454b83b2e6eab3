// Work lists with the tensors of a backward pass, and the gradients by the definition, in double. Tests of all back
// ends use them.
#pragma once

#include "annulus/kernels/gather.hpp"
#include "kernels/work_case.hpp"
#include "support/tolerance.hpp"

namespace annulus::test {

using Gradients = kernels::ReferenceGradients;

/// A forward case with gradients of out and lse. As attend_backward() requires, no list has a (query row, head)
/// or a (key row, key/value head) twice.
struct BackwardCase : WorkCase {
  std::vector<double> dout = {}, dlse = {};  ///< dlse (B, rows, H), or empty: none

  void fill_all(double amplitude = 1) {
    fill(amplitude);
    dout = random_values(core::TensorId::dout, out_numbers(), type);
    dlse = random_values(core::TensorId::dlse, states(), type);
  }
};

/// delta = dout.out - dlse of every (batch, query row, head).
inline std::vector<double> naive_delta(const BackwardCase& test, const kernels::ReferenceResult& forward) {
  std::vector<double> delta(forward.lse.size());
  for (std::size_t row = 0; row < delta.size(); ++row) {
    delta[row] =
        dot(test.dout, row, forward.out, row, test.shape.dim_of_values()) - (test.dlse.empty() ? 0 : test.dlse[row]);
  }
  return delta;
}

/// The gradients by their definition; delta is computed from forward.out, which may be rounded.
inline Gradients naive_gradients(const BackwardCase& test, const kernels::ReferenceResult& forward) {
  const std::size_t D = std::size_t(test.shape.head_dim), Dv = std::size_t(test.shape.dim_of_values());
  const std::vector<double> delta = naive_delta(test, forward);
  Gradients g{std::vector<double>(test.q.size(), 0.0), std::vector<double>(test.k.size(), 0.0),
              std::vector<double>(test.v.size(), 0.0)};
  for_each_meeting(test, [&](std::size_t row, std::size_t key, const Meeting& at) {
    const NaiveScore score = score_of(test, row, key, at);
    const double p = std::exp(score.value - forward.lse[row]);
    const double ds = p * (test.output_scale * dot(test.dout, row, test.v, key, Index(Dv)) - delta[row]) * score.slope;
    for (std::size_t d = 0; d < D; ++d) {
      g.dq[row * D + d] += test.scale() * ds * test.k[key * D + d];
      g.dk[key * D + d] += test.scale() * ds * test.q[row * D + d];
    }
    for (std::size_t d = 0; d < Dv; ++d) g.dv[key * Dv + d] += test.output_scale * p * test.dout[row * Dv + d];
  });
  return g;
}

/// Adds `begun`, the sums of the last blocks of rows, which are incomplete (GradientViews), to `sums`; both have `rows`
/// rows.
inline void end_blocks(const DeviceTensor& begun, const DeviceTensor& sums, Index rows) {
  const core::Precision precision =
      sums.view.type == DType::float64 ? core::Precision::float64 : core::Precision::float32;
  const Index row_bytes = rows > 0 ? sums.buffer.bytes() / rows : 0;
  kernels::add_rows({{0, 1, rows, 0}}, {begun.buffer.data(), 1, rows, row_bytes},
                    {sums.buffer.data(), 1, rows, row_bytes}, precision);
}

inline void expect_close(const Gradients& actual, const Gradients& expected, double tolerance) {
  EXPECT_TRUE(close_to(actual.dq, expected.dq, tolerance)) << "dq";
  EXPECT_TRUE(close_to(actual.dk, expected.dk, tolerance)) << "dk";
  EXPECT_TRUE(close_to(actual.dv, expected.dv, tolerance)) << "dv";
}

inline void expect_same_bits(const Gradients& actual, const Gradients& expected) {
  EXPECT_EQ(actual.dq, expected.dq) << "dq";
  EXPECT_EQ(actual.dk, expected.dk) << "dk";
  EXPECT_EQ(actual.dv, expected.dv) << "dv";
}

}  // namespace annulus::test
