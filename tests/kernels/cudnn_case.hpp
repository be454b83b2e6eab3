// Runs both passes with an engine for dense attention (kernels/cudnn): cuDNN or a test double of it. Also makes
// cases for both passes.
#pragma once

#include <string>
#include <utility>

#include "annulus/kernels/cudnn/attend.hpp"
#include "kernels/device_backward_case.hpp"

namespace annulus::test {

/// Returns out and lse of the engine. out is float32, so that rounding does not hide errors of merging.
inline kernels::ReferenceResult forward_by(kernels::cudnn::Engine& engine, const WorkCase& test) {
  const core::Shape& shape = test.shape;
  const DeviceTensor q = to_device(test.q, test.type, test.query_rows, shape.heads, shape.head_dim);
  const DeviceTensor k = to_device(test.k, test.type, test.key_rows, shape.kv_heads, shape.head_dim);
  const DeviceTensor v = to_device(test.v, test.type, test.key_rows, shape.kv_heads, shape.head_dim);
  kernels::State state(shape, test.query_rows, test.precision);
  poison(state.acc);
  for (const core::WorkList& list : test.calls)
    kernels::cudnn::attend(engine, list, {q.view, k.view, v.view, test.scale()}, state, {});
  const Index rows = test.states();
  const std::vector<double> unwritten(std::size_t(rows * shape.head_dim), 1234.0);
  const DeviceTensor out = to_device(unwritten, DType::float32, test.query_rows, shape.heads, shape.head_dim);
  const DeviceTensor lse =
      to_device(std::vector<double>(std::size_t(rows), 1234.0), DType::float32, test.query_rows, shape.heads, 1);
  kernels::finish(kernels::Backend::device, state, {out.view, lse.view}, test.output_scale);
  return {from_device(out.buffer, rows * shape.head_dim, DType::float32),
          from_device(lse.buffer, rows, DType::float32)};
}

inline void expect_close(const kernels::ReferenceResult& actual, const WorkCase& test, double out_tolerance,
                         double lse_tolerance, const std::string& what) {
  const kernels::ReferenceResult expected = naive_answer(test);
  EXPECT_TRUE(close_to(actual.out, expected.out, out_tolerance)) << "out, " << what;
  EXPECT_TRUE(close_to(actual.lse, expected.lse, lse_tolerance)) << "lse, " << what;
}

/// Compares the engine's gradients with the definition. The engine gets out as it is stored, rounded to its type.
inline void expect_gradients(kernels::cudnn::Engine& engine, const BackwardCase& test, double tolerance) {
  kernels::ReferenceResult forward = naive_answer(test);
  const DeviceTensor out = to_device(forward.out, test.type, test.query_rows, test.shape.heads, test.shape.head_dim);
  forward.out = from_device(out.buffer, Index(forward.out.size()), test.type);  // as it is stored
  const BackwardAnswer known{forward.lse, naive_delta(test, forward), naive_gradients(test, forward)};
  const Gradients actual = gradients_by(test, known, [&](const core::WorkList& list, const BackwardTensors& tensors) {
    kernels::BackwardOperands operands = tensors.operands(test);
    operands.out = out.view;
    kernels::cudnn::attend_backward(engine, list, test.shape, test.query_rows, test.precision, operands,
                                    tensors.gradients(), {});
  });
  expect_close(actual, known.gradients, tolerance);
}

/// Pairs (16, 1) and (32, 4) over 77 rows, batch 2, 4 query heads on `kv_heads` K/V heads: several segments and
/// offsets, shorter last segments, and rows that see keys of both pairs.
template <class AnyCase>
AnyCase two_pairs(Index kv_heads, DType type, core::Band mask) {
  AnyCase test;
  test.shape = {2, 0, 4, kv_heads, 16};
  test.query_rows = test.key_rows = 77;
  test.type = type;
  const Index group = 4 / kv_heads;
  for (const auto& [segment, dilation] : {std::pair<Index, Index>(16, 1), {32, 4}}) {
    core::WorkList& list = test.calls.emplace_back();
    for (Index begin = 0; begin < test.query_rows; begin += segment) {
      const Index end = std::min(begin + segment, test.query_rows);
      for (Index kv = 0; kv < kv_heads; ++kv) {
        const Index first = begin + (dilation > 1 ? kv : 0), count = core::ceil_div(end - first, dilation);
        list.runs.push_back({0, first, dilation, count});
        const core::RowMap rows{Index(list.runs.size()) - 1, 1, count};
        list.items.push_back({rows, rows, kv, kv * group, 1, group, mask});
      }
    }
  }
  return test;
}

}  // namespace annulus::test
