// Facts about GPUs that are needed before Kokkos starts. Builds for GPUs also start on nodes without one (login nodes).
#pragma once

#include <optional>
#include <string>

#include "annulus/core/types.hpp"

namespace annulus::core {

/// How many GPUs this process may use; 0 in builds for host threads.
int gpu_count();
/// Name and number of the GPU in use: "NVIDIA H100 80GB HBM3 (device 0)"; only in builds for GPUs.
std::string gpu_name();
/// The GPU's compute capability, "sm_90": GPUs of the same kind compute the same bits. Empty in builds for host
/// threads, and if there is no GPU.
std::string gpu_kind();

/// The GPU's address on its machine, the same in every process: "0000:3b:00.0"; empty in builds for host threads.
std::string gpu_address();

/// Free bytes of the GPU's memory, for all processes on the GPU together; empty in builds for host threads, and if
/// there is no GPU.
std::optional<Index> free_gpu_memory();

/// Why there is no GPU, in the words of the GPU's own library: "no CUDA-capable device is detected". Empty if there is
/// a GPU, and in builds for host threads.
std::string why_no_gpu();

}  // namespace annulus::core
