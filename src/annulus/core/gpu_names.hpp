// Names of the GPU's runtime library, CUDA or HIP, whose names differ only in a prefix. GPU(Malloc) is cudaMalloc or
// hipMalloc. The macro is not defined in builds for host threads (and, so far, for other GPUs).
#pragma once

#include <Kokkos_Core.hpp>

#if defined(KOKKOS_ENABLE_CUDA)
#define GPU(name) cuda##name
#elif defined(KOKKOS_ENABLE_HIP)
#define GPU(name) hip##name
#endif
