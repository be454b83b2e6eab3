// Defines a macro for functions of the GPU's runtime library. Their names in CUDA and HIP differ only in a prefix:
// GPU(Malloc) is cudaMalloc or hipMalloc. Builds for host threads, and so far for other GPUs, do not define the macro.
#pragma once

#include <Kokkos_Core.hpp>

#if defined(KOKKOS_ENABLE_CUDA)
#define GPU(name) cuda##name
#elif defined(KOKKOS_ENABLE_HIP)
#define GPU(name) hip##name
#endif
