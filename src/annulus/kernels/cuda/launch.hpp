// Launches block programs on the execution space's stream.
#pragma once

#include <Kokkos_Core.hpp>
#include <numbers>

#include "annulus/core/error.hpp"
#include "annulus/core/kokkos_compat.hpp"
#include "annulus/kernels/cuda/attend.hpp"
#include "annulus/kernels/cuda/forward_block.hpp"
#include "annulus/kernels/cuda/mma.hpp"

namespace annulus::kernels::cuda {

template <class Block>
__global__ void __launch_bounds__(Block::threads)
    forward_blocks(const __grid_constant__ typename Block::Task task, const Index first) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  GpuMachine machine;
  Block::run(machine, task, first + Index(blockIdx.x));
#endif
}

inline void require_success(cudaError_t error, const char* what) {
  core::require(error == cudaSuccess, [&] { return fmt::format("{}: {}", what, cudaGetErrorString(error)); });
}

/// Whether this GPU, with the code that the build has for it, runs the kernel with so much shared memory, which it is
/// then allowed.
template <class Kernel>
bool can_run(Kernel* kernel, int shared_bytes) {
  cudaFuncAttributes attributes;
  require_success(cudaFuncGetAttributes(&attributes, kernel), "asking for a kernel's attributes");
  if (attributes.ptxVersion < 80) return false;  // compiled for sm_75: empty
  if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes) == cudaSuccess)
    return true;
  (void)cudaGetLastError();  // a smaller GPU, not a failure
  return false;
}

template <class Block>
bool launch_forward(const core::WorkList& list, const Operands& operands, State& state, const Poll& poll) {
  using Sum = typename Block::Sum;
  static const bool can = can_run(&forward_blocks<Block>, Block::shared_bytes);
  if (!can) return false;
  const device::DeviceWork work(list, state.shape.batch, device::Owner::rows, Block::rows);
  const typename Block::Task task{work.view(),
                                  operands.q,
                                  operands.k,
                                  operands.v,
                                  device::pointers_of<Sum>(state),
                                  Sum(operands.scale * std::numbers::log2e),
                                  int(state.shape.head_dim)};
  const Kokkos::Cuda space;
  Index first = 0;
  for (const Index end : work.launches(state.shape.head_dim, std::numeric_limits<double>::max())) {
    forward_blocks<Block>
        <<<unsigned(end - first), Block::threads, Block::shared_bytes, space.cuda_stream()>>>(task, first);
    require_success(cudaGetLastError(), "annulus::attend");
    first = end;
  }
  while (poll && core::is_busy(space)) poll();
  space.fence();
  if (poll) poll();
  return true;
}

/// launch_forward() with the first tile of the table that has enough columns.
template <template <class, int> class Engine, class Number, const auto& table, std::size_t entry = 0>
bool launch_forward_of(const core::WorkList& list, const Operands& operands, State& state, const Poll& poll) {
  if constexpr (entry < std::size(table)) {
    if (state.shape.head_dim <= table[entry].columns)
      return launch_forward<ForwardBlock<Engine, Number, table[entry]>>(list, operands, state, poll);
    return launch_forward_of<Engine, Number, table, entry + 1>(list, operands, state, poll);
  } else {
    return false;
  }
}

}  // namespace annulus::kernels::cuda
