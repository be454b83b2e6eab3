#include "annulus/core/gpu_driver.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <map>
#include <mutex>

#include "annulus/core/gpu_names.hpp"
#if defined(KOKKOS_ENABLE_CUDA)
#include <cuda.h>
using DeviceProperties = cudaDeviceProp;
#elif defined(KOKKOS_ENABLE_HIP)
using DeviceProperties = hipDeviceProp_t;
#endif

#if defined(KOKKOS_ENABLE_CUDA)
// Nodes without a GPU lack the driver's library, and a program that is linked with that library does not start there.
// So this program is not linked with it. Kokkos calls three functions of the library. The functions below have the
// names of these three, and look up the driver's functions when they are called.
namespace {

template <class... Arguments>
CUresult call_driver(const char* name, Arguments... arguments) {
  static void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  void* const function = driver == nullptr ? nullptr : dlsym(driver, name);
  if (function == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  return reinterpret_cast<CUresult (*)(Arguments...)>(function)(arguments...);
}

}  // namespace

CUresult cuCtxGetDevice(CUdevice* device) { return call_driver("cuCtxGetDevice", device); }
CUresult cuCtxPushCurrent(CUcontext context) { return call_driver("cuCtxPushCurrent_v2", context); }
CUresult cuStreamGetCtx(CUstream stream, CUcontext* context) { return call_driver("cuStreamGetCtx", stream, context); }
#endif

namespace annulus::core {

int gpu_count() {
  int count = 0;
#if defined(GPU)
  if (GPU(GetDeviceCount)(&count) != GPU(Success)) count = 0;
#endif
  return count;
}

#if defined(GPU)
namespace {

/// The properties of the GPU in use; nullptr if there is no GPU. Keeps the properties, because the driver needs a
/// millisecond to find them.
const DeviceProperties* properties_in_use() {
  static std::mutex mutex;
  static std::map<int, DeviceProperties> known;
  const std::lock_guard<std::mutex> lock(mutex);
  int device = 0;
  if (GPU(GetDevice)(&device) != GPU(Success)) return nullptr;
  const auto found = known.find(device);
  if (found != known.end()) return &found->second;
  DeviceProperties properties{};
  if (GPU(GetDeviceProperties)(&properties, device) != GPU(Success)) return nullptr;
  return &(known[device] = properties);
}

}  // namespace
#endif

std::string gpu_name() {
#if defined(GPU)
  int device = 0;
  const DeviceProperties* properties = properties_in_use();
  if (properties != nullptr && GPU(GetDevice)(&device) == GPU(Success))
    return fmt::format("{} (device {})", properties->name, device);
#endif
  return "unknown GPU";
}

std::string gpu_kind() {
#if defined(GPU)
  const DeviceProperties* properties = properties_in_use();
  if (properties == nullptr) return "";
#if defined(KOKKOS_ENABLE_CUDA)
  return fmt::format("sm_{}{}", properties->major, properties->minor);
#else
  return properties->gcnArchName;
#endif
#else
  return "";
#endif
}

std::string gpu_address() {
#if defined(GPU)
  int device = 0;
  std::array<char, 32> text{};
  if (GPU(GetDevice)(&device) == GPU(Success) &&
      GPU(DeviceGetPCIBusId)(text.data(), int(text.size()), device) == GPU(Success)) {
    return text.data();
  }
#endif
  return "";
}

std::optional<Index> free_gpu_memory() {
#if defined(GPU)
  std::size_t free = 0, all = 0;
  if (gpu_count() > 0 && GPU(MemGetInfo)(&free, &all) == GPU(Success)) return Index(free);
#endif
  return {};
}

std::string why_no_gpu() {
#if defined(GPU)
  int count = 0;
  const auto code = GPU(GetDeviceCount)(&count);
  if (code != GPU(Success)) return GPU(GetErrorString)(code);
  if (count == 0) return "no device is visible";
#endif
  return "";
}

}  // namespace annulus::core
