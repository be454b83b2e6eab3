// Runs of the device teams' backward pass on a chosen space.
#pragma once

#include <functional>
#include <vector>

#include "annulus/kernels/device/epilogue.hpp"
#include "annulus/kernels/device/launch.hpp"
#include "kernels/backward_case.hpp"
#include "kernels/device_case.hpp"

namespace annulus::test {

/// What the backward kernels need of the forward, and the gradients, by the definition.
struct BackwardAnswer {
  std::vector<double> lse;
  std::vector<double> delta;
  Gradients gradients;
};
inline BackwardAnswer naive_backward(const BackwardCase& test) {
  const kernels::ReferenceResult forward = naive_answer(test);
  return {forward.lse, naive_delta(test, forward), naive_gradients(test, forward)};
}

/// The device teams' gradients in the accumulation type, from the lse and delta of `known`.
template <class ExecSpace, class Tuning>
Gradients device_gradients(const BackwardCase& test, const BackwardAnswer& known, int team_size,
                           const std::function<void()>& poll = {}) {
  const core::Shape& shape = test.shape;
  const Index D = shape.head_dim;
  const auto queries = [&](const std::vector<double>& values, DType type, Index width) {
    return to_device(values, type, test.query_rows, shape.heads, width);
  };
  const auto keys = [&](const std::vector<double>& values, DType type) {
    return to_device(values, type, test.key_rows, shape.kv_heads, D);
  };
  const DeviceTensor q = queries(test.q, test.type, D), dout = queries(test.dout, test.type, D);
  const DeviceTensor k = keys(test.k, test.type), v = keys(test.v, test.type);
  const DeviceTensor normalizers = queries(normalizers_of(known.lse), test.sums(), 2),
                     delta = queries(known.delta, test.sums(), 1);
  const std::vector<double> query_zeros(test.q.size()), key_zeros(test.k.size());
  const DeviceTensor dq = queries(query_zeros, test.sums(), D), dk = keys(key_zeros, test.sums()),
                     dv = keys(key_zeros, test.sums());
  const kernels::BackwardOperands operands{q.view,           k.view,     v.view,       dout.view,
                                           normalizers.view, delta.view, test.scale(), test.output_scale};
  for (const core::WorkList& list : test.calls) {
    kernels::device::launch_attend_backward<ExecSpace, Tuning>(list, shape, test.precision, operands,
                                                               {dq.view, dk.view, dv.view}, poll, team_size);
  }
  // Filled with a number that is no result, so that an element nobody writes shows.
  const auto finished = [&](const DeviceTensor& sums, Index rows, Index heads, double unit) {
    const Index count = shape.batch * rows * heads * D;
    const DeviceTensor to = to_device(std::vector<double>(std::size_t(count), 1234.0), test.sums(), rows, heads, D);
    kernels::device::launch_gradient<ExecSpace>({shape.batch, rows, heads, heads, D}, rows, sums.view, to.view, unit,
                                                team_size);
    return from_device(to.buffer, count, test.sums());
  };
  return {finished(dq, test.query_rows, shape.heads, test.scale()),
          finished(dk, test.key_rows, shape.kv_heads, test.scale()),
          finished(dv, test.key_rows, shape.kv_heads, test.output_scale)};
}

}  // namespace annulus::test
