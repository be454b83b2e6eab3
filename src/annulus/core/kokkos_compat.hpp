// Every difference between Kokkos 3.4 (Debian 12) and 5.x that the project meets, and nothing else.
#pragma once

#include <Kokkos_Core.hpp>
#include <string>
#include <type_traits>
#if KOKKOS_VERSION < 30700
#include <Kokkos_MathematicalFunctions.hpp>  // part of Kokkos_Core.hpp, and out of Experimental, from 3.7 on
#endif

#include "annulus/core/types.hpp"

namespace annulus::core {

// Functions of float and double for device code.
#if KOKKOS_VERSION < 30700
using Kokkos::Experimental::ceil;
using Kokkos::Experimental::cos;
using Kokkos::Experimental::exp2;
using Kokkos::Experimental::floor;
using Kokkos::Experimental::log;
using Kokkos::Experimental::sin;
using Kokkos::Experimental::sqrt;
using Kokkos::Experimental::tanh;
#else
using Kokkos::ceil;
using Kokkos::cos;
using Kokkos::exp2;
using Kokkos::floor;
using Kokkos::log;
using Kokkos::sin;
using Kokkos::sqrt;
using Kokkos::tanh;
#endif

/// Host memory that a GPU copies from and to by itself, beside its kernels; ordinary memory in builds for host threads.
#if defined(KOKKOS_ENABLE_CUDA)
using PinnedSpace = Kokkos::CudaHostPinnedSpace;
#elif defined(KOKKOS_ENABLE_HIP) && KOKKOS_VERSION < 40000
using PinnedSpace = Kokkos::Experimental::HIPHostPinnedSpace;
#elif defined(KOKKOS_ENABLE_HIP)
using PinnedSpace = Kokkos::HIPHostPinnedSpace;
#else
using PinnedSpace = Kokkos::HostSpace;
#endif

/// Whether something that was launched there still runs. False where a launch returns when it is done, and after a
/// failure, which the next fence() tells.
template <class ExecSpace>
bool is_busy(const ExecSpace& space) {
#if defined(KOKKOS_ENABLE_CUDA)
  if constexpr (std::is_same_v<ExecSpace, Kokkos::Cuda>)
    return cudaStreamQuery(space.cuda_stream()) == cudaErrorNotReady;
#elif defined(KOKKOS_ENABLE_HIP)
  if constexpr (std::is_same_v<ExecSpace, Kokkos::HIP>) return hipStreamQuery(space.hip_stream()) == hipErrorNotReady;
#endif
  (void)space;
  return false;
}

/// Kokkos::initialize on GPU number `device` modulo the devices of this machine, unless the command line names one
/// (--kokkos-device-id). Without a GPU backend `device` means nothing. Kokkos' own options are taken out of argc and
/// argv. In a build for GPUs on a node without one Kokkos is not started: what needs no kernel works all the same
/// (Buffer is host memory then, and loops on the host run on one thread), and the rest asks require_device() first.
void initialize_kokkos(int& argc, char**& argv, int device);

/// "3.4.1": the version Kokkos was compiled with.
std::string kokkos_version();
/// "OpenMP, Serial": execution spaces built in, the default one first.
std::string kokkos_backends();
/// What the default execution space runs on: the GPU's name, "2 threads", or "no GPU (<why>)".
std::string device_name();
/// Throws Error(failure), which says why, where kernels cannot run: a build for GPUs on a node without one.
void require_device();

/// Threads on which kernels on the host run: those of Kokkos, or as few as they were limited to.
int host_threads();
/// From now on no more than `most`, 1 or more; for programs that share the process with other libraries.
void limit_host_threads(int most);

/// body(i) for first <= i < end, on all host threads, or on this one alone where Kokkos was not started. Complete on
/// return.
template <class Body>
void for_each_on_host(const char* label, Index first, Index end, const Body& body) {
  using Space = Kokkos::DefaultHostExecutionSpace;
  if (!Kokkos::is_initialized()) {
    for (Index i = first; i < end; ++i) body(i);
    return;
  }
  Kokkos::parallel_for(label, Kokkos::RangePolicy<Space, Kokkos::IndexType<Index>>(first, end), body);
  Space().fence();
}

}  // namespace annulus::core
