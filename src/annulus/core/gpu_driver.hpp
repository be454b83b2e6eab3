// Finds facts about GPUs without Kokkos. They are needed before Kokkos starts, and on login nodes without a GPU, where
// builds for GPUs also run, but without Kokkos.
#pragma once

#include <optional>
#include <string>

#include "annulus/core/types.hpp"

namespace annulus::core {

/// Returns how many GPUs this process may use; 0 in builds for host threads.
int gpu_count();
/// Returns name and number of the GPU in use, "NVIDIA H100 80GB HBM3 (device 0)"; "unknown GPU" if there is no GPU.
std::string gpu_name();
/// Returns the GPU's compute capability, "sm_90", or the name of an AMD GPU's architecture. GPUs of the same kind
/// compute the same bits. Empty in builds for host threads, and if there is no GPU.
std::string gpu_kind();

/// Returns the GPU's PCI address, "0000:3b:00.0", which is the same in every process of the machine. Empty in builds
/// for host threads, and if there is no GPU.
std::string gpu_address();

/// Returns the bytes of GPU memory that no process uses. Empty in builds for host threads, and if there is no GPU.
std::optional<Index> free_gpu_memory();

/// Returns why there is no GPU, in the words of the GPU's own library: "no CUDA-capable device is detected". Empty if
/// there is a GPU, and in builds for host threads.
std::string why_no_gpu();

}  // namespace annulus::core
