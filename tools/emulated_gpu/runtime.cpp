// The runtime's functions that are about devices, streams and events. They replace the real library's (LD_PRELOAD).
// Functions that are not here come from the real library, which finds no GPU.
#include "runtime.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "memory.hpp"
#include "streams.hpp"
#include "warp.hpp"

namespace emulated_gpu {
namespace {

thread_local cudaError_t last_error = cudaSuccess;
int device_in_use = 0;

int devices() {
  const char* text = std::getenv("EMULATED_GPU_COUNT");
  return text != nullptr ? std::atoi(text) : 1;
}

struct Event {
  Point point;
};

}  // namespace

cudaError_t ended(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) last_error = error;
  return error;
}

int chosen_device() { return device_in_use; }

}  // namespace emulated_gpu

using namespace emulated_gpu;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = devices();
  return *count > 0 ? cudaSuccess : ended(cudaErrorNoDevice);
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= devices()) return ended(cudaErrorInvalidDevice);
  device_in_use = device;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = device_in_use;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int size, int device) {
  std::snprintf(text, std::size_t(size), "0000:%02x:00.0", device + 1);
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  std::memset(static_cast<void*>(properties), 0, sizeof *properties);
  std::snprintf(properties->name, sizeof properties->name, "emulated GPU (sm_90)");
  properties->major = 9;
  properties->minor = is_set("EMULATED_GPU_OTHER") ? 1 : 0;
  properties->totalGlobalMem = bytes_of_all();
  properties->sharedMemPerBlock = plain_shared;
  properties->sharedMemPerBlockOptin = most_shared;
  properties->sharedMemPerMultiprocessor = shared_of_multiprocessor;
  properties->reservedSharedMemPerBlock = first_shared;
  properties->regsPerBlock = properties->regsPerMultiprocessor = 65536;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = 1024;
  properties->maxThreadsPerMultiProcessor = 2048;
  properties->maxBlocksPerMultiProcessor = 32;
  properties->maxThreadsDim[0] = properties->maxThreadsDim[1] = 1024;
  properties->maxThreadsDim[2] = 64;
  properties->maxGridSize[0] = 2147483647;
  properties->maxGridSize[1] = properties->maxGridSize[2] = 65535;
  properties->multiProcessorCount = multiprocessors;
  properties->l2CacheSize = 50 << 20;
  properties->totalConstMem = 65536;
  properties->unifiedAddressing = properties->managedMemory = properties->concurrentManagedAccess = 1;
  properties->concurrentKernels = 1;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = multiprocessors;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
      *value = 9;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = 0;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = most_shared;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = plain_shared;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = shared_of_multiprocessor;
      return cudaSuccess;
    case cudaDevAttrConcurrentManagedAccess:
      *value = 1;
      return cudaSuccess;
    case cudaDevAttrMemoryPoolsSupported:
      *value = 0;
      return cudaSuccess;
    default:
      fail("cudaDeviceGetAttribute of " + std::to_string(int(attribute)));
  }
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  const std::lock_guard lock(runtime_mutex());
  run_everything();
  return cudaSuccess;
}
cudaError_t cudaDeviceReset() { return cudaSuccess; }
cudaError_t cudaDeviceGetLimit(std::size_t* value, cudaLimit) {
  *value = 1024;
  return cudaSuccess;
}
cudaError_t cudaDeviceSetLimit(cudaLimit, std::size_t) { return cudaSuccess; }
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* all) {
  *all = bytes_of_all();
  *free = *all - bytes_in_use();
  return cudaSuccess;
}
cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}
cudaError_t cudaPeekAtLastError() { return last_error; }

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  const std::lock_guard lock(runtime_mutex());
  *stream = reinterpret_cast<cudaStream_t>(new_stream(flags != cudaStreamNonBlocking));
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithPriority(stream, 0, 0); }
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const std::lock_guard lock(runtime_mutex());
  remove(&stream_of(stream));
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const std::lock_guard lock(runtime_mutex());
  run_until(end_of(stream_of(stream)));
  return cudaSuccess;
}
/// Each query runs one operation: so work makes progress while the program asks.
cudaError_t cudaStreamQuery(cudaStream_t given) {
  const std::lock_guard lock(runtime_mutex());
  Stream& stream = stream_of(given);
  if (is_over(end_of(stream))) return cudaSuccess;
  run_one(stream);
  return cudaErrorNotReady;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const std::lock_guard lock(runtime_mutex());
  enqueue(stream_of(stream), nullptr, {reinterpret_cast<Event*>(event)->point});
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = reinterpret_cast<cudaEvent_t>(new Event);
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete reinterpret_cast<Event*>(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const std::lock_guard lock(runtime_mutex());
  reinterpret_cast<Event*>(event)->point = end_of(stream_of(stream));
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const std::lock_guard lock(runtime_mutex());
  const Point point = reinterpret_cast<Event*>(event)->point;
  if (is_over(point)) return cudaSuccess;
  run_one(*point.stream);
  return cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const std::lock_guard lock(runtime_mutex());
  run_until(reinterpret_cast<Event*>(event)->point);
  return cudaSuccess;
}

// ---- functions of the driver: this library is also found as libcuda.so.1 ----

int cuStreamGetCtx(void*, void** context) {
  static int some;
  *context = &some;
  return 0;
}
int cuCtxPushCurrent_v2(void*) { return 0; }
int cuCtxGetDevice(int* device) {
  *device = device_in_use;
  return 0;
}

}  // extern "C"
