// Launches block programs on the execution space's stream.
#pragma once

#include <Kokkos_Core.hpp>
#include <limits>
#include <map>
#include <mutex>
#include <numbers>

#include "annulus/core/error.hpp"
#include "annulus/core/kokkos_compat.hpp"
#include "annulus/kernels/cuda/attend.hpp"
#include "annulus/kernels/cuda/forward_block.hpp"
#include "annulus/kernels/cuda/mma.hpp"
#include "annulus/kernels/cuda/partial_states.hpp"

namespace annulus::kernels::cuda {

template <class Block>
__global__ void __launch_bounds__(Block::threads)
    run_blocks(const __grid_constant__ typename Block::Task task, const Index first) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  GpuMachine machine;
  Block::run(machine, task, first + Index(blockIdx.x));
#endif
}

inline void require_success(cudaError_t error, const char* what) {
  core::require(error == cudaSuccess, [&] { return fmt::format("{}: {}", what, cudaGetErrorString(error)); });
}

/// True if the build has code of the kernel for this GPU, and the GPU has this much shared memory. If true, this call
/// has also allowed the kernel to use that memory.
template <class Kernel>
bool can_run(Kernel* kernel, int shared_bytes) {
  cudaFuncAttributes attributes;
  require_success(cudaFuncGetAttributes(&attributes, kernel), "asking for a kernel's attributes");
  if (attributes.ptxVersion < 80) return false;  // before sm_80 the kernel is empty
  if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes) == cudaSuccess)
    return true;
  (void)cudaGetLastError();  // clears the error: the GPU is too small, which is not a failure
  return false;
}

/// Returns ask(device) for the GPU in use, and calls `ask` only once for each GPU. `known` keeps an answer for each
/// GPU, because a Plan (library/plan.hpp) may ask before Kokkos has chosen a GPU, when another GPU may be in use. A
/// Plan may also ask from another thread, so there is a mutex.
template <class Answer, class Ask>
Answer asked_once(std::map<int, Answer>& known, const Ask& ask) {
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  int device = 0;
  require_success(cudaGetDevice(&device), "asking for the GPU");
  const auto found = known.find(device);
  return found != known.end() ? found->second : known[device] = ask(device);
}

template <class Block>
bool can_run() {
  static std::map<int, bool> known;
  return asked_once(known, [](int) { return can_run(&run_blocks<Block>, Block::shared_bytes); });
}

/// How many of these blocks the GPU runs at the same time. can_run<Block>() must be true.
template <class Block>
Index blocks_side_by_side() {
  static std::map<int, Index> known;
  return asked_once(known, [](int device) {
    int multiprocessors = 0, each = 0;
    require_success(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device),
                    "asking for the multiprocessors");
    require_success(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, run_blocks<Block>, Block::threads,
                                                                  std::size_t(Block::shared_bytes)),
                    "asking for the blocks of a multiprocessor");
    return Index(multiprocessors) * each;
  });
}

/// Launches the blocks [first, end) after what was launched before.
template <class Block>
void start(const char* label, const typename Block::Task& task, Index first, Index end) {
  const Kokkos::Cuda space;
  run_blocks<Block><<<unsigned(end - first), Block::threads, Block::shared_bytes, space.cuda_stream()>>>(task, first);
  require_success(cudaGetLastError(), label);
}

/// Polls until everything that was launched is done.
inline void complete(const Poll& poll) {
  const Kokkos::Cuda space;
  while (poll && core::is_busy(space)) poll();
  space.fence();
  if (poll) poll();
}

/// Runs all blocks of a work list; complete on return.
template <class Block>
void run_all(const char* label, const device::DeviceWork& work, const typename Block::Task& task, const Poll& poll) {
  Index first = 0;
  for (const Index end : work.launches(task.head_dim, std::numeric_limits<double>::max())) {
    start<Block>(label, task, first, end);
    first = end;
  }
  complete(poll);
}

/// Runs blocks that each have a part of a team's keys, then merges their partial states; complete on return.
template <class Block>
void run_split(const device::DeviceWork& work, const KeySplit& split, typename Block::Task task, const Poll& poll) {
  const PartialStates<typename Block::Sum> partial(split, task.head_dim);
  task.parts = partial.parts();
  task.partial_states = partial.pointers();
  start<Block>("annulus::attend", task, 0, Index(split.parts.size()));
  partial.merge(work.view(), task.state);
  complete(poll);
}

template <class Block>
bool launch_forward(const core::WorkList& list, const Operands& operands, State& state, const Poll& poll) {
  using Sum = typename Block::Sum;
  if (!can_run<Block>()) return false;
  if (list.empty()) return true;
  const device::DeviceWork work(list, state.shape.batch, device::Owner::rows, Block::rows);
  const typename Block::Task task{work.view(),
                                  operands.q,
                                  operands.k,
                                  operands.v,
                                  device::pointers_of<Sum>(state),
                                  Sum(operands.scale * std::numbers::log2e),
                                  int(state.shape.head_dim)};
  const Index most_partial = most_partial_bytes / PartialStates<Sum>::bytes_of_one(state.shape.head_dim);
  const KeySplit split =
      Block::is_ordered ? KeySplit{} : split_keys(work, Block::keys, {blocks_side_by_side<Block>(), most_partial});
  if (split.teams.empty()) {
    run_all<Block>("annulus::attend", work, task, poll);
  } else {
    run_split<Block>(work, split, task, poll);
  }
  return true;
}

/// launch_forward() with the first sizes in the table that have enough columns and that the GPU can run. Returns false
/// if there are none.
template <template <class, int> class Engine, class Number, const auto& table, std::size_t entry = 0>
bool launch_forward_of(const core::WorkList& list, const Operands& operands, State& state, const Poll& poll) {
  if constexpr (entry < std::size(table)) {
    if (state.shape.head_dim <= table[entry].columns &&
        (state.by_granules
             ? launch_forward<ForwardBlock<Engine, Number, table[entry], true>>(list, operands, state, poll)
             : launch_forward<ForwardBlock<Engine, Number, table[entry]>>(list, operands, state, poll))) {
      return true;
    }
    return launch_forward_of<Engine, Number, table, entry + 1>(list, operands, state, poll);
  } else {
    return false;
  }
}

}  // namespace annulus::kernels::cuda
