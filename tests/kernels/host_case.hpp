// Runs the forward pass of the host back end.
#pragma once

#include <fmt/format.h>

#include <functional>

#include "annulus/kernels/host/host_backend.hpp"
#include "kernels/work_case.hpp"

namespace annulus::test {

using kernels::host::InstructionSet;

using HostCase = WorkCase;

/// A case of one head where rows 0 ... rows - 1 see all keys 0 ... keys - 1, or if causal those up to their own number.
inline HostCase plain_case(Index rows, Index keys, Index head_dim, bool causal, Index value_dim = 0) {
  HostCase test{{1, 0, 1, 1, head_dim, value_dim}, rows, keys};
  core::WorkList list;
  list.runs = {{0, 0, 1, rows}, {0, 0, 1, keys}};
  core::WorkItem item;
  item.query = {0, 1, rows};
  item.key = {1, 1, keys};
  item.band = causal ? core::Band::upto : core::Band::all;
  list.items = {item};
  test.calls = {list};
  return test;
}

/// The host back end's answer. out and lse start as 1234, never a result, so that tests notice unwritten elements.
inline kernels::ReferenceResult host_answer(const HostCase& test, InstructionSet set,
                                            const std::function<void()>& poll = {}) {
  const core::Shape& shape = test.shape;
  const DeviceTensor q = to_device(test.q, test.type, test.query_rows, shape.heads, shape.head_dim);
  const DeviceTensor k = to_device(test.k, test.type, test.key_rows, shape.kv_heads, shape.head_dim);
  const DeviceTensor v = to_device(test.v, test.type, test.key_rows, shape.kv_heads, shape.dim_of_values());
  kernels::State state(shape, test.query_rows, test.precision);
  state.key_parts = test.key_parts;
  for (const core::WorkList& list : test.calls) {
    kernels::host::host_attend(list, {q.view, k.view, v.view, test.scale(), test.call_rule()}, state, poll, set);
  }
  const Index numbers = test.out_numbers(), states = test.states();
  const DType lse_type = core::lse_type(test.type);
  const std::vector<double> unwritten(std::size_t(numbers), 1234.0);
  const DeviceTensor out = to_device(unwritten, test.type, test.query_rows, shape.heads, shape.dim_of_values());
  const DeviceTensor lse =
      to_device(std::vector<double>(std::size_t(states), 1234.0), lse_type, test.query_rows, shape.heads, 1);
  kernels::host::host_finish(state, {out.view, lse.view}, test.output_scale, set);
  return {from_device(out.buffer, numbers, test.type), from_device(lse.buffer, states, lse_type)};
}

}  // namespace annulus::test
