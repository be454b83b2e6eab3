// The runtime's functions that are about kernels, and what nvcc's own code calls.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

#include "binaries.hpp"
#include "runtime.hpp"
#include "streams.hpp"
#include "warp.hpp"

namespace emulated_gpu {
namespace {

const bool is_told = is_set("EMULATED_GPU_TELL");

void tell(const Launch& launch) {
  const std::string text =
      fmt::format("emulated GPU: {} blocks of {} threads, {} bytes of shared memory: {}\n", launch.grid.count(),
                  launch.block.count(), launch.kernel->shared_bytes + launch.dynamic_bytes, launch.kernel->name);
  std::fputs(text.c_str(), stderr);
}

cudaError_t launch(Function* function, dim3 grid, dim3 block, void** arguments, std::size_t shared,
                   cudaStream_t given) {
  const std::lock_guard lock(runtime_mutex());
  if (function == nullptr) return ended(cudaErrorInvalidDeviceFunction);
  Kernel& kernel = function->kernel();
  Launch made;
  made.kernel = &kernel;
  made.grid = {grid.x, grid.y, grid.z};
  made.block = {block.x, block.y, block.z};
  made.dynamic_bytes = std::uint32_t(shared);
  if (made.grid.count() == 0 || made.block.count() == 0 || made.block.count() > kernel.most_threads || block.z > 64 ||
      grid.x > 2147483647u || grid.y > 65535 || grid.z > 65535)
    return ended(cudaErrorInvalidConfiguration);
  if (shared > std::size_t(function->most_dynamic) || shared + kernel.shared_bytes > std::size_t(most_shared))
    return ended(cudaErrorInvalidValue);
  made.parameters.resize(kernel.parameter_bytes);
  for (std::size_t n = 0; n < kernel.parameters.size(); ++n)
    std::memcpy(made.parameters.data() + kernel.parameters[n].offset, arguments[n], kernel.parameters[n].bytes);
  auto shared_launch = std::make_shared<Launch>(std::move(made));
  enqueue(stream_of(given), [shared_launch] {
    if (is_told) tell(*shared_launch);
    run(*shared_launch);
  });
  return cudaSuccess;
}

struct Configuration {
  dim3 grid, block;
  std::size_t shared;
  cudaStream_t stream;
};
thread_local std::vector<Configuration> configurations;

}  // namespace
}  // namespace emulated_gpu

using namespace emulated_gpu;

extern "C" {

void** __cudaRegisterFatBinary(void* binary) {
  return reinterpret_cast<void**>(new Binary(binary));  // kept until the process ends
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 1; }
void __cudaRegisterFunction(void** handle, const char* host, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*,
                            int*) {
  add_function(host, reinterpret_cast<Binary*>(handle), name);
}
void __cudaRegisterVar(void** handle, char* host, char*, const char* name, int, std::size_t, int, int) {
  add_variable(host, reinterpret_cast<Binary*>(handle), name);
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host) {
  *kernel = reinterpret_cast<cudaKernel_t>(function_of(host));
  return *kernel == nullptr ? cudaErrorInvalidDeviceFunction : cudaSuccess;
}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared, CUstream_st* stream) {
  configurations.push_back({grid, block, shared, stream});
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared, void* stream) {
  const Configuration top = configurations.back();
  configurations.pop_back();
  *grid = top.grid;
  *block = top.block;
  *shared = top.shared;
  *static_cast<cudaStream_t*>(stream) = top.stream;
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, std::size_t shared,
                               cudaStream_t stream) {
  return launch(reinterpret_cast<Function*>(kernel), grid, block, arguments, shared, stream);
}
cudaError_t cudaLaunchKernel(const void* host, dim3 grid, dim3 block, void** arguments, std::size_t shared,
                             cudaStream_t stream) {
  return launch(function_of(host), grid, block, arguments, shared, stream);
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* host) {
  const std::lock_guard lock(runtime_mutex());
  Function* function = function_of(host);
  if (function == nullptr) return ended(cudaErrorInvalidDeviceFunction);
  Kernel& kernel = function->kernel();
  std::memset(attributes, 0, sizeof *attributes);
  attributes->sharedSizeBytes = kernel.shared_bytes;
  attributes->localSizeBytes = kernel.local_bytes;
  attributes->maxThreadsPerBlock = int(kernel.most_threads);
  // The most that the launch bounds allow; how many ptxas uses is not known here.
  attributes->numRegs = int(std::min(128U, 65536 / (kernel.most_threads * kernel.least_blocks) / 8 * 8));
  attributes->ptxVersion = attributes->binaryVersion = 90;
  attributes->maxDynamicSharedSizeBytes = function->most_dynamic;
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void* host, cudaFuncAttribute attribute, int value) {
  const std::lock_guard lock(runtime_mutex());
  Function* function = function_of(host);
  if (function == nullptr) return ended(cudaErrorInvalidDeviceFunction);
  if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize) {
    if (std::size_t(value) + function->kernel().shared_bytes > std::size_t(most_shared))
      return ended(cudaErrorInvalidValue);
    function->most_dynamic = value;
  }
  return cudaSuccess;
}
cudaError_t cudaFuncSetCacheConfig(const void*, cudaFuncCache) { return cudaSuccess; }
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* host, int threads,
                                                          std::size_t dynamic) {
  const std::lock_guard lock(runtime_mutex());
  Function* function = function_of(host);
  if (function == nullptr) return ended(cudaErrorInvalidDeviceFunction);
  const std::size_t shared = dynamic + function->kernel().shared_bytes + 1024;
  *blocks = std::min({32, 2048 / threads, int(shared_of_multiprocessor / shared)});
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* host, int threads,
                                                                   std::size_t dynamic, unsigned) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, host, threads, dynamic);
}

}  // extern "C"
