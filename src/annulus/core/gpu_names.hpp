// Names of the GPU's runtime library, CUDA or HIP; the two differ in a prefix. GPU(Malloc) is cudaMalloc or hipMalloc.
// It is not defined in builds for host threads (and, so far, for other GPUs).
#pragma once

#include <Kokkos_Core.hpp>

#if defined(KOKKOS_ENABLE_CUDA)
#define GPU(name) cuda##name
#elif defined(KOKKOS_ENABLE_HIP)
#define GPU(name) hip##name
#endif
