#include "annulus/core/kokkos_compat.hpp"

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <string_view>
#include <vector>

#include "annulus/core/error.hpp"

namespace annulus::core {
namespace {

#if defined(KOKKOS_ENABLE_CUDA)
int device_count() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}
#elif defined(KOKKOS_ENABLE_HIP)
int device_count() {
  int count = 0;
  return hipGetDeviceCount(&count) == hipSuccess ? count : 0;
}
#else
int device_count() { return 0; }
#endif

bool names_device(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word(argv[i]);
    if (word.rfind("--kokkos-device-id", 0) == 0 || word.rfind("--device-id", 0) == 0) return true;
  }
  return false;
}

}  // namespace

void initialize_kokkos(int& argc, char**& argv, int device) {
  // Words, because they are the one spelling all versions understand; the argument struct changed its name in 3.7.
  // Kokkos' advice to set OMP_PROC_BIND is kept quiet: followed under mpirun, it puts all ranks of a node on one core.
  std::string quiet = "--kokkos-disable-warnings", gpu;
  std::vector<char*> words(argv, argv + argc);
  words.push_back(quiet.data());
  const int devices = device_count();
  if (devices > 0 && !names_device(argc, argv)) {
    gpu = "--kokkos-device-id=" + std::to_string(device % devices);
    words.push_back(gpu.data());
  }
  int count = int(words.size());
  words.push_back(nullptr);
  Kokkos::initialize(count, words.data());
  // Kokkos took its own words out; what is left goes back to the caller, in the caller's array.
  argc = count;
  std::copy_n(words.begin(), count, argv);
  argv[count] = nullptr;
}

std::string kokkos_version() {
  return fmt::format("{}.{}.{}", KOKKOS_VERSION / 10000, KOKKOS_VERSION / 100 % 100, KOKKOS_VERSION % 100);
}

std::string kokkos_backends() {
  const std::string chosen = Kokkos::DefaultExecutionSpace::name();
  std::string all = chosen;
  const auto add = [&](const std::string& name) {
    if (name != chosen) all += ", " + name;
  };
#ifdef KOKKOS_ENABLE_OPENMP
  add(Kokkos::OpenMP::name());
#endif
#ifdef KOKKOS_ENABLE_THREADS
  add(Kokkos::Threads::name());
#endif
#ifdef KOKKOS_ENABLE_SERIAL
  add(Kokkos::Serial::name());
#endif
  return all;
}

std::string device_name() {
#if defined(KOKKOS_ENABLE_CUDA)
  int device = 0;
  cudaDeviceProp properties{};
  if (cudaGetDevice(&device) == cudaSuccess && cudaGetDeviceProperties(&properties, device) == cudaSuccess) {
    return fmt::format("{} (device {})", properties.name, device);
  }
  return "unknown GPU";
#elif defined(KOKKOS_ENABLE_HIP)
  int device = 0;
  hipDeviceProp_t properties{};
  if (hipGetDevice(&device) == hipSuccess && hipGetDeviceProperties(&properties, device) == hipSuccess) {
    return fmt::format("{} (device {})", properties.name, device);
  }
  return "unknown GPU";
#else
  const int threads = Kokkos::DefaultExecutionSpace().concurrency();
  return fmt::format("{} thread{}", threads, threads == 1 ? "" : "s");
#endif
}

}  // namespace annulus::core
