// Runs the block programs of the tensor-core kernels on the host (twin.hpp), on the same work lists and states as every
// other kernel, and returns their results.
#pragma once

#include <algorithm>
#include <limits>
#include <numbers>
#include <vector>

#include "kernels/twin.hpp"  // first: it switches off warnings of nvcc about block programs

#include "annulus/kernels/attention.hpp"
#include "annulus/kernels/cuda/forward_task.hpp"
#include "annulus/kernels/cuda/partial_states.hpp"
#include "annulus/kernels/device/epilogue.hpp"
#include "annulus/kernels/device/tuning.hpp"
#include "kernels/work_case.hpp"

namespace annulus::test {

/// A host copy of the numbers of a device buffer; the destructor copies them back.
template <class T>
class OnHost {
 public:
  explicit OnHost(const core::Buffer& buffer) : buffer_(buffer), numbers_(std::size_t(buffer.bytes()) / sizeof(T)) {
    core::copy_to_host(numbers_.data(), buffer.data(), buffer.bytes());
  }
  ~OnHost() { core::copy_to_device(buffer_.data(), numbers_.data(), buffer_.bytes()); }
  OnHost(const OnHost&) = delete;
  OnHost& operator=(const OnHost&) = delete;
  T* data() { return numbers_.data(); }
  void fill(T number) { std::fill(numbers_.begin(), numbers_.end(), number); }

 private:
  core::Buffer buffer_;
  std::vector<T> numbers_;
};

/// How block programs run on the host, and what was counted.
struct TwinRun {
  Copies copies = Copies::at_wait;
  Fibres::Order order = Fibres::Order::upwards;
  int bank_conflicts = 1;
  Index parts = 1;  ///< of the team that sees most keys; parts of other teams have at most as many keys
  bool last_block_first = false;
  Index partial_states = 0;  ///< summed over all calls
};

/// Calls Block::run() for blocks 0 ... count - 1, on the host.
template <class Block>
void twin_blocks(const typename Block::Task& task, Index count, TwinRun& how) {
  for (Index i = 0; i < count; ++i) {
    const Index number = how.last_block_first ? count - 1 - i : i;
    TwinBlock block(Block::threads, Block::shared_bytes, how.copies, how.order);
    block.run([&](TwinMachine& machine) { Block::run(machine, task, number); });
    how.bank_conflicts = std::max(how.bank_conflicts, block.bank_conflicts);
  }
}

/// Splits the keys of a list's teams into parts (TwinRun::parts).
template <class Block>
kernels::cuda::KeySplit twin_split(const kernels::device::DeviceWork& work, TwinRun& how) {
  const auto teams = kernels::cuda::keys_of_teams(work.host_view(), work.teams());
  Index most = 1;
  for (const auto& team : teams) most = std::max(most, core::ceil_div(team.keys.end - team.keys.begin, Block::keys));
  const auto split = kernels::cuda::split_keys(teams, Block::keys, core::ceil_div(most, how.parts));
  how.partial_states += split.partial_states;
  return split;
}

/// Does what attend() does: block programs run on the host, and the device merges their partial states.
template <class Block>
void twin_attend(const core::WorkList& list, const DeviceTensor (&qkv)[3], double scale, kernels::State& state,
                 TwinRun& how) {
  using Sum = typename Block::Sum;
  const kernels::device::DeviceWork work(list, state.shape.batch, kernels::device::Owner::rows, Block::rows);
  const kernels::cuda::KeySplit split = twin_split<Block>(work, how);
  const kernels::cuda::PartialStates<Sum> partial(split, state.shape.head_dim);
  {
    OnHost<Sum> m(state.m), l(state.l), acc(state.acc), partial_states(partial.memory());
    partial_states.fill(std::numeric_limits<Sum>::quiet_NaN());
    OnHost<std::byte> q(qkv[0].buffer), k(qkv[1].buffer), v(qkv[2].buffer);
    typename Block::Task task{work.host_view(),
                              qkv[0].view,
                              qkv[1].view,
                              qkv[2].view,
                              {m.data(), l.data(), nullptr, acc.data(), state.rows, state.shape.heads},
                              Sum(scale * std::numbers::log2e),
                              int(state.shape.head_dim)};
    task.q.data = q.data();
    task.k.data = k.data();
    task.v.data = v.data();
    if (!split.teams.empty()) {
      task.parts = split.parts.data();
      task.partial_states = partial.pointers(partial_states.data());
    }
    twin_blocks<Block>(task, split.teams.empty() ? work.teams() : Index(split.parts.size()), how);
  }
  partial.merge(work.view(), kernels::device::pointers_of<Sum>(state));
  Kokkos::fence();
}

/// Calls attend(list, {q, k, v}, scale, state) for each list, and returns the answer.
template <class Attend>
kernels::ReferenceResult answer_by(const WorkCase& test, const Attend& attend) {
  const core::Shape& shape = test.shape;
  const DeviceTensor qkv[3] = {to_device(test.q, test.type, test.query_rows, shape.heads, shape.head_dim),
                               to_device(test.k, test.type, test.key_rows, shape.kv_heads, shape.head_dim),
                               to_device(test.v, test.type, test.key_rows, shape.kv_heads, shape.head_dim)};
  kernels::State state(shape, test.query_rows, test.precision);
  poison(state.acc);
  for (const core::WorkList& list : test.calls) attend(list, qkv, test.scale(), state);
  // 1234 is never a result, so that a test notices an element that no kernel writes.
  const Index rows = test.states();
  const DType lse_type = core::lse_type(test.type);
  const DeviceTensor out = to_device(std::vector<double>(std::size_t(rows * shape.head_dim), 1234.0), test.type,
                                     test.query_rows, shape.heads, shape.head_dim);
  const DeviceTensor lse =
      to_device(std::vector<double>(std::size_t(rows), 1234.0), lse_type, test.query_rows, shape.heads, 1);
  kernels::device::launch_finish<Kokkos::DefaultExecutionSpace>(state, {out.view, lse.view}, test.output_scale);
  return {from_device(out.buffer, rows * shape.head_dim, test.type), from_device(lse.buffer, rows, lse_type)};
}

template <class Block>
kernels::ReferenceResult twin_answer(const WorkCase& test, TwinRun& how) {
  return answer_by(test, [&](const core::WorkList& list, const DeviceTensor(&qkv)[3], double scale,
                             kernels::State& state) { twin_attend<Block>(list, qkv, scale, state, how); });
}

}  // namespace annulus::test
