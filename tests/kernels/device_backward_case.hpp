// Runs the backward pass of the device back end's teams on a chosen execution space.
#pragma once

#include <functional>
#include <vector>

#include "annulus/kernels/device/epilogue.hpp"
#include "annulus/kernels/device/launch.hpp"
#include "kernels/backward_case.hpp"
#include "kernels/device_case.hpp"

namespace annulus::test {

/// What backward kernels need from the forward pass, and the gradients, all by the definition.
struct BackwardAnswer {
  std::vector<double> lse;
  std::vector<double> delta;
  Gradients gradients;
};
inline BackwardAnswer naive_backward(const BackwardCase& test) {
  const kernels::ReferenceResult forward = naive_answer(test);
  return {forward.lse, naive_delta(test, forward), naive_gradients(test, forward)};
}

/// The tensors of a call of the backward pass.
struct BackwardTensors {
  DeviceTensor q, k, v, dout, normalizers, delta, dq, dk, dv, begun_dk, begun_dv;
  bool in_blocks = true;

  kernels::BackwardOperands operands(const BackwardCase& test) const {
    return {.q = q.view,
            .k = k.view,
            .v = v.view,
            .dout = dout.view,
            .normalizers = normalizers.view,
            .delta = delta.view,
            .scale = test.scale(),
            .output_scale = test.output_scale,
            .rule = test.call_rule()};
  }
  kernels::GradientViews gradients() const {
    if (!in_blocks) return {dq.view, dk.view, dv.view};
    return {dq.view, dk.view, dv.view, begun_dk.view, begun_dv.view};
  }
};

/// Calls attend(list, tensors) for each list, with the lse and delta of `known`; returns gradients in the accumulation
/// type. `in_blocks`: a list continues the blocks of rows that earlier lists began (GradientViews).
template <class ExecSpace, class Attend>
Gradients gradients_on(const BackwardCase& test, const BackwardAnswer& known, const Attend& attend,
                       bool in_blocks = true) {
  const core::Shape& shape = test.shape;
  const Index D = shape.head_dim;
  const auto queries = [&](const std::vector<double>& values, DType type, Index width) {
    return to_device(values, type, test.query_rows, shape.heads, width);
  };
  const auto keys = [&](const std::vector<double>& values, DType type) {
    return to_device(values, type, test.key_rows, shape.kv_heads, D);
  };
  const std::vector<double> query_zeros(test.q.size()), key_zeros(test.k.size());
  const BackwardTensors t{queries(test.q, test.type, D),
                          keys(test.k, test.type),
                          keys(test.v, test.type),
                          queries(test.dout, test.type, D),
                          queries(normalizers_of(known.lse), test.sums(), 2),
                          queries(known.delta, test.sums(), 1),
                          queries(query_zeros, test.sums(), D),
                          keys(key_zeros, test.sums()),
                          keys(key_zeros, test.sums()),
                          keys(key_zeros, test.sums()),
                          keys(key_zeros, test.sums()),
                          in_blocks};
  for (const core::WorkList& list : test.calls) attend(list, t);
  end_blocks(t.begun_dk, t.dk, shape.batch * test.key_rows);
  end_blocks(t.begun_dv, t.dv, shape.batch * test.key_rows);
  // 1234 is never a result, so that a test notices an element that no kernel writes.
  const auto finished = [&](const DeviceTensor& sums, Index rows, Index heads, double unit) {
    const Index count = shape.batch * rows * heads * D;
    const DeviceTensor to = to_device(std::vector<double>(std::size_t(count), 1234.0), test.sums(), rows, heads, D);
    kernels::device::launch_gradient<ExecSpace>({shape.batch, rows, heads, heads, D}, rows, sums.view, to.view, unit);
    return from_device(to.buffer, count, test.sums());
  };
  return {finished(t.dq, test.query_rows, shape.heads, test.scale()),
          finished(t.dk, test.key_rows, shape.kv_heads, test.scale()),
          finished(t.dv, test.key_rows, shape.kv_heads, test.output_scale)};
}

/// Calls gradients_on() for the default execution space.
template <class Attend>
Gradients gradients_by(const BackwardCase& test, const BackwardAnswer& known, const Attend& attend) {
  using Space = Kokkos::DefaultExecutionSpace;
  return gradients_on<Space>(test, known, attend);
}

/// Gradients by the teams of the device back end.
template <class ExecSpace, class Tuning>
Gradients device_gradients(const BackwardCase& test, const BackwardAnswer& known, int team_size,
                           const std::function<void()>& poll = {}, bool in_blocks = true) {
  const auto attend = [&](const core::WorkList& list, const BackwardTensors& t) {
    kernels::device::launch_attend_backward<ExecSpace, Tuning>(list, test.shape, test.precision, t.operands(test),
                                                               t.gradients(), poll, team_size);
  };
  return gradients_on<ExecSpace>(test, known, attend, in_blocks);
}

}  // namespace annulus::test
