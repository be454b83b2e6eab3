// Runs the backward pass of the host back end, and compares it with the definition.
#pragma once

#include "kernels/backward_case.hpp"
#include "kernels/host_case.hpp"

namespace annulus::test {

/// A case of one head where rows 0 ... rows - 1 see keys 0 ... keys - 1 by `mask`.
inline BackwardCase backward_case(Index rows, Index keys, Index head_dim, core::Band mask, Index value_dim = 0) {
  BackwardCase test{plain_case(rows, keys, head_dim, false, value_dim)};
  test.calls[0].items[0].band = mask;
  return test;
}

/// What the forward pass leaves for the backward pass: out in the storage type, lse exact.
inline kernels::ReferenceResult stored_forward(const BackwardCase& test) {
  kernels::ReferenceResult forward = naive_answer(test);
  forward.out = rounded(forward.out, test.type);
  return forward;
}

/// How host_gradients() runs. It returns gradients in type `result`, or accumulators if not `finished`.
struct BackwardRun {
  InstructionSet set = kernels::host::best_instruction_set();
  bool finished = true;
  DType result = DType::float64;  ///< of dq, dk, dv; only with `finished`
  std::function<void()> poll = {};
  bool in_blocks = false;  ///< a list continues the blocks of rows that the list before began
};
inline Gradients host_gradients(const BackwardCase& test, const kernels::ReferenceResult& forward,
                                const BackwardRun& run = {}) {
  namespace host = kernels::host;
  const core::Shape& shape = test.shape;
  const Index D = shape.head_dim, Dv = shape.dim_of_values(), rows = test.query_rows, keys = test.key_rows;
  const DType wide = test.sums();
  const auto query_like = [&](const std::vector<double>& x, DType type, Index dim) {
    return to_device(x, type, rows, shape.heads, dim);
  };
  const auto key_like = [&](const std::vector<double>& x, DType type, Index dim) {
    return to_device(x, type, keys, shape.kv_heads, dim);
  };
  const auto row_like = [&](const std::vector<double>& x, DType type) {
    return to_device(x, type, rows, shape.heads, 1);
  };
  const DeviceTensor q = query_like(test.q, test.type, D), k = key_like(test.k, test.type, D),
                     v = key_like(test.v, test.type, Dv), dout = query_like(test.dout, test.type, Dv),
                     out = query_like(forward.out, test.type, Dv),
                     normalizers = to_device(normalizers_of(forward.lse), wide, rows, shape.heads, 2),
                     dlse = row_like(test.dlse, test.type),
                     delta = row_like(std::vector<double>(forward.lse.size(), 1234.0), wide);
  const DeviceTensor dq = query_like(std::vector<double>(test.q.size(), 0.0), wide, D),
                     dk = key_like(std::vector<double>(test.k.size(), 0.0), wide, D),
                     dv = key_like(std::vector<double>(test.v.size(), 0.0), wide, Dv),
                     begun_dk = key_like(std::vector<double>(test.k.size(), 0.0), wide, D),
                     begun_dv = key_like(std::vector<double>(test.v.size(), 0.0), wide, Dv);
  const core::TensorView none;
  host::host_backward_delta(shape, rows, out.view, dout.view, test.dlse.empty() ? none : dlse.view, delta.view,
                            run.set);
  kernels::GradientViews gradients{dq.view, dk.view, dv.view};
  if (run.in_blocks) gradients = {dq.view, dk.view, dv.view, begun_dk.view, begun_dv.view};
  for (const core::WorkList& list : test.calls) {
    kernels::BackwardOperands operands{q.view,           k.view,     v.view,       dout.view,
                                       normalizers.view, delta.view, test.scale(), test.output_scale};
    operands.rule = test.call_rule();
    if (!run.in_blocks) operands.key_parts = test.key_parts;
    host::host_attend_backward(list, shape, rows, test.precision, operands, gradients, run.poll, run.set);
  }
  end_blocks(begun_dk, dk, shape.batch * keys);
  end_blocks(begun_dv, dv, shape.batch * keys);
  const auto result = [&](kernels::Gradient which, const DeviceTensor& accumulator, Index of_rows, Index heads) {
    const Index dim = which == kernels::Gradient::dv ? Dv : D, numbers = shape.batch * of_rows * heads * dim;
    if (!run.finished) return from_device(accumulator.buffer, numbers, wide);
    const DeviceTensor to =
        to_device(std::vector<double>(std::size_t(numbers), 1234.0), run.result, of_rows, heads, dim);
    host::host_finish_gradient(which, {shape.batch, of_rows, heads, heads, dim}, test.precision, accumulator.view,
                               to.view, test.scale(), run.set);
    return from_device(to.buffer, numbers, run.result);
  };
  return {result(kernels::Gradient::dq, dq, rows, shape.heads), result(kernels::Gradient::dk, dk, keys, shape.kv_heads),
          result(kernels::Gradient::dv, dv, keys, shape.kv_heads)};
}

/// The tolerance for the rounding of products, and of results, which are stored in the tensors' type.
inline double forward_tolerance(const WorkCase& test) {
  return std::max(core::forward_tolerance(test.precision), core::forward_tolerance(test.type));
}
inline double gradient_tolerance(const WorkCase& test) { return core::gradient_tolerance(test.precision); }

/// Compares the forward pass and the gradients of every instruction set with the definition.
inline void expect_both_passes(const BackwardCase& test, const std::string& what) {
  const kernels::ReferenceResult expected = naive_answer(test), forward = stored_forward(test);
  const Gradients gradients = naive_gradients(test, forward);
  for (const InstructionSet set : kernels::host::usable_instruction_sets()) {
    SCOPED_TRACE(fmt::format("{}, {}, {} in {}, D {} {}", what, name_of(set), core::name_of(test.type),
                             name_of(test.precision), test.shape.head_dim, test.shape.value_dim));
    const kernels::ReferenceResult actual = host_answer(test, set);
    EXPECT_TRUE(close_to(actual.out, expected.out, forward_tolerance(test))) << "out";
    EXPECT_TRUE(close_to(actual.lse, expected.lse, forward_tolerance(test))) << "lse";
    expect_close(host_gradients(test, forward, {set}), gradients, gradient_tolerance(test));
    expect_close(host_gradients(test, forward, {.set = set, .in_blocks = true}), gradients, gradient_tolerance(test));
  }
}

/// Compares the definition's gradients with finite differences of its forward pass.
inline void expect_derivatives(BackwardCase test) {
  const auto loss = [&] {
    const kernels::ReferenceResult forward = naive_answer(test);
    double sum = 0;
    for (std::size_t i = 0; i < forward.out.size(); ++i) sum += forward.out[i] * test.dout[i];
    for (std::size_t i = 0; i < forward.lse.size(); ++i) sum += forward.lse[i] * test.dlse[i];
    return sum;
  };
  const Gradients g = naive_gradients(test, naive_answer(test));
  const auto expect_slopes = [&](std::vector<double>& x, const std::vector<double>& slopes, const char* name) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double at = x[i], step = 1e-5;
      x[i] = at + step;
      const double above = loss();
      x[i] = at - step;
      const double below = loss();
      x[i] = at;
      EXPECT_NEAR((above - below) / (2 * step), slopes[i], 1e-8) << name << " " << i;
    }
  };
  expect_slopes(test.q, g.dq, "dq");
  expect_slopes(test.k, g.dk, "dk");
  expect_slopes(test.v, g.dv, "dv");
}

}  // namespace annulus::test
