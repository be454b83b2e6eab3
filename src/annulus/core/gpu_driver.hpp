// GPUs, before anything is started on them: a build for GPUs also starts on nodes without one, login nodes among them.
#pragma once

#include <optional>
#include <string>

#include "annulus/core/types.hpp"

namespace annulus::core {

/// GPUs that this process may use; 0 in builds for host threads.
int gpu_count();
/// Name and number of the one that was chosen: "NVIDIA H100 80GB HBM3 (device 0)"; in builds for GPUs.
std::string gpu_name();
/// What it can compute, "sm_90": others of this kind add alike, to the bit. Empty in builds for host threads, and where
/// there is no GPU.
std::string gpu_kind();

/// The same one's place on its machine, the same for every process: "0000:3b:00.0"; empty in builds for host threads.
std::string gpu_address();

/// Bytes of its memory that all processes on it can still have together; nothing in builds for host threads, and where
/// there is no GPU.
std::optional<Index> free_gpu_memory();

/// Why there is none, in the words of the GPU's own library: "no CUDA-capable device is detected"; empty where there is
/// one, and in builds for host threads.
std::string why_no_gpu();

}  // namespace annulus::core
