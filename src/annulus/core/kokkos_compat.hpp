// Contains all code that differs between Kokkos 3.4 (Debian 12) and 5.x, starts Kokkos, and runs loops on host threads.
#pragma once

#include <Kokkos_Core.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#if KOKKOS_VERSION < 30700
#include <Kokkos_MathematicalFunctions.hpp>  // from 3.7 on part of Kokkos_Core.hpp and no longer in Experimental
#endif

#include "annulus/core/types.hpp"

namespace annulus::core {

// Mathematical functions of float and double for device code.
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

/// Host memory that a GPU reads and writes directly while its kernels run; ordinary memory in builds for host threads.
#if defined(KOKKOS_ENABLE_CUDA)
using PinnedSpace = Kokkos::CudaHostPinnedSpace;
#elif defined(KOKKOS_ENABLE_HIP) && KOKKOS_VERSION < 40000
using PinnedSpace = Kokkos::Experimental::HIPHostPinnedSpace;
#elif defined(KOKKOS_ENABLE_HIP)
using PinnedSpace = Kokkos::HIPHostPinnedSpace;
#else
using PinnedSpace = Kokkos::HostSpace;
#endif

/// True if work that was launched in `space` still runs. Always false if a launch returns only when its work is done.
/// Also false after a failure, which the next fence() reports.
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

/// Calls Kokkos::initialize on GPU number `device` modulo the number of GPUs that this process may use, unless the
/// command line names a GPU (--kokkos-device-id). Without a GPU backend `device` has no effect. Removes Kokkos' own
/// options from argc and argv. A build for GPUs does not start Kokkos on a node without a GPU. On such a node Buffer is
/// host memory, loops on the host run on one thread, and work that needs kernels calls require_device() first.
void initialize_kokkos(int& argc, char**& argv, int device);

/// Checks a number of threads that the user sets by `name`, an option or environment variable of Kokkos. A later
/// initialize_kokkos() does not start Kokkos unless `text` is a whole number from 1 to most_kokkos_threads.
void check_kokkos_threads(std::string_view name, std::string_view text);
/// Throws Error(usage) if Kokkos was not started because of a mistake in its options or environment variables.
void require_valid_kokkos_options();

/// Returns the version of Kokkos that this program was compiled with: "3.4.1".
std::string kokkos_version();
/// Returns the execution spaces of this build, the default one first: "OpenMP, Serial".
std::string kokkos_backends();
/// Describes what the default execution space runs on: the GPU's name, "2 threads", or "no GPU (<why>)".
std::string device_name();
/// Throws Error(failure), which says why, if kernels cannot run because a build for GPUs is on a node without a GPU.
void require_device();

/// Kokkos' table of OpenMP threads has this many entries, and Kokkos does not check whether a program asks for more
/// threads.
inline constexpr int most_kokkos_threads = 512;
/// Number of threads that run kernels on the host: Kokkos' threads, or the lower limit of limit_host_threads().
int host_threads();
/// Lets at most `most` threads (1 or more) run attention kernels and for_each_on_host(), for programs whose other
/// libraries have threads, too.
void limit_host_threads(int most);

/// Calls body(i) for first <= i < end on host_threads() threads, each with consecutive i. All calls are done on return.
template <class Body>
void for_each_on_host(const char* label, Index first, Index end, const Body& body) {
  using Space = Kokkos::DefaultHostExecutionSpace;
  const Index threads = host_threads();
  const auto work = [&](const Index thread) {
    const Interval part = even_part(end - first, threads, thread);
    for (Index i = first + part.begin; i < first + part.end; ++i) body(i);
  };
  if (threads == 1) return work(0);  // without Kokkos, which perhaps was not started
  Kokkos::parallel_for(label, Kokkos::RangePolicy<Space>(0, threads).set_chunk_size(1), work);
  Space().fence();
}

}  // namespace annulus::core
