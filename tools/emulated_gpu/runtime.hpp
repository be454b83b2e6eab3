// What the files with the runtime's functions share.
#pragma once

#include <cuda_runtime_api.h>

namespace emulated_gpu {

/// Remembers an error for cudaGetLastError(), and returns it.
cudaError_t ended(cudaError_t error);

int chosen_device();

/// What an H100 has: bytes of shared memory, and multiprocessors.
inline constexpr int most_shared = 227 * 1024, shared_of_multiprocessor = 228 * 1024, plain_shared = 48 * 1024;
inline constexpr int multiprocessors = 132;

}  // namespace emulated_gpu
