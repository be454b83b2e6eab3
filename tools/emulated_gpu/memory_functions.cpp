// The runtime's functions that are about memory.
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "binaries.hpp"
#include "memory.hpp"
#include "runtime.hpp"
#include "streams.hpp"

namespace emulated_gpu {
namespace {

std::uint64_t number_of(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

std::byte* bytes_at(const void* pointer, std::size_t bytes, const char* what) {
  std::byte* data = found_anywhere(number_of(pointer), bytes);
  if (data == nullptr && bytes > 0) {
    fail(fmt::format("{} {} bytes at {}, which no allocation has", what, bytes, pointer));
  }
  return data;
}

/// Lines of `width` bytes; a plain copy is one.
struct Lines {
  const void* first;
  std::size_t pitch;
};

void copy_lines(const Lines& to, const Lines& from, std::size_t width, std::size_t count) {
  for (std::size_t line = 0; line < count; ++line) {
    std::memcpy(bytes_at(static_cast<const char*>(to.first) + line * to.pitch, width, "copies to"),
                bytes_at(static_cast<const char*>(from.first) + line * from.pitch, width, "copies from"), width);
  }
}

/// As NVIDIA's programming guide says: pageable memory is read before the call returns, and written before it returns;
/// pinned and device memory when the stream comes to it.
cudaError_t copy(const Lines& to, const Lines& from, std::size_t width, std::size_t count, Stream& stream, bool waits) {
  const std::lock_guard lock(runtime_mutex());
  if (width == 0 || count == 0) return cudaSuccess;
  const bool from_device = is_device(number_of(from.first)), to_device = is_device(number_of(to.first));
  const bool from_pageable = !from_device && pinned_of(number_of(from.first)).bytes == 0;
  const bool to_pageable = !to_device && pinned_of(number_of(to.first)).bytes == 0;
  if (!waits && from_pageable && to_device) {
    auto staged = std::make_shared<std::vector<std::byte>>(width * count);
    copy_lines({staged->data(), width}, from, width, count);
    enqueue(stream, [=] { copy_lines(to, {staged->data(), width}, width, count); });
    return cudaSuccess;
  }
  auto run = [=] { copy_lines(to, from, width, count); };
  if (waits || to_pageable || from_pageable) {
    enqueue(stream, run);
    run_until(end_of(stream));
  } else {
    enqueue(stream, run);
  }
  return cudaSuccess;
}

cudaError_t fill(void* to, int value, std::size_t bytes, Stream& stream, bool waits) {
  const std::lock_guard lock(runtime_mutex());
  auto run = [=] {
    if (bytes > 0) std::memset(bytes_at(to, bytes, "fills"), value, bytes);
  };
  if (waits) {
    enqueue(stream, run);
    run_until(end_of(stream));
  } else {
    enqueue(stream, run);
  }
  return cudaSuccess;
}

}  // namespace
}  // namespace emulated_gpu

using namespace emulated_gpu;

extern "C" {

cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  const std::uint64_t address = bytes == 0 ? 0 : allocate(bytes);
  *pointer = reinterpret_cast<void*>(address);
  return bytes == 0 || address != 0 ? cudaSuccess : ended(cudaErrorMemoryAllocation);
}
cudaError_t cudaFree(void* pointer) {
  if (pointer == nullptr) return cudaSuccess;
  const std::lock_guard lock(runtime_mutex());
  run_everything();
  if (!free_device(number_of(pointer))) {
    if (!remove_pinned(pointer)) return ended(cudaErrorInvalidValue);
    std::free(pointer);  // managed
  }
  return cudaSuccess;
}
cudaError_t cudaMallocAsync(void** pointer, std::size_t bytes, cudaStream_t) { return cudaMalloc(pointer, bytes); }
cudaError_t cudaFreeAsync(void* pointer, cudaStream_t given) {
  const std::lock_guard lock(runtime_mutex());
  enqueue(stream_of(given), [=] { free_device(number_of(pointer)); });
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** pointer, std::size_t bytes, unsigned) {
  *pointer = std::aligned_alloc(256, (bytes + 255) / 256 * 256 + 256);
  std::memset(*pointer, 0xff, bytes);
  add_pinned(*pointer, bytes);
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** pointer, std::size_t bytes) { return cudaHostAlloc(pointer, bytes, 0); }
cudaError_t cudaMallocManaged(void** pointer, std::size_t bytes, unsigned) { return cudaHostAlloc(pointer, bytes, 0); }
cudaError_t cudaFreeHost(void* pointer) {
  if (pointer == nullptr) return cudaSuccess;
  const std::lock_guard lock(runtime_mutex());
  run_everything();
  if (!remove_pinned(pointer)) return ended(cudaErrorInvalidValue);
  std::free(pointer);
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  std::memset(attributes, 0, sizeof *attributes);
  attributes->device = chosen_device();
  if (allocation_of(number_of(pointer)).bytes > 0) {
    attributes->type = cudaMemoryTypeDevice;
    attributes->devicePointer = const_cast<void*>(pointer);
  } else if (pinned_of(number_of(pointer)).bytes > 0) {
    attributes->type = cudaMemoryTypeHost;
    attributes->hostPointer = attributes->devicePointer = const_cast<void*>(pointer);
  } else {
    attributes->type = cudaMemoryTypeUnregistered;
    attributes->hostPointer = const_cast<void*>(pointer);
  }
  return cudaSuccess;
}
cudaError_t cudaMemPrefetchAsync(const void*, std::size_t, cudaMemLocation, unsigned, cudaStream_t) {
  return cudaSuccess;
}
cudaError_t cudaMemAdvise(const void*, std::size_t, cudaMemoryAdvise, cudaMemLocation) { return cudaSuccess; }
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  return copy({to, 0}, {from, 0}, bytes, 1, null_stream(), true);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  return copy({to, 0}, {from, 0}, bytes, 1, stream_of(stream), false);
}
cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                              std::size_t width, std::size_t height, cudaMemcpyKind, cudaStream_t stream) {
  if (width > to_pitch || width > from_pitch) return ended(cudaErrorInvalidPitchValue);
  return copy({to, to_pitch}, {from, from_pitch}, width, height, stream_of(stream), false);
}
cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, std::size_t bytes, std::size_t offset,
                               cudaMemcpyKind kind) {
  const std::lock_guard lock(runtime_mutex());
  std::uint64_t address = 0;
  if (!find_variable(symbol, address)) return ended(cudaErrorInvalidSymbol);
  if (address == 0) return cudaSuccess;  // no kernel uses it
  return cudaMemcpy(reinterpret_cast<void*>(address + offset), from, bytes, kind);
}
cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* from, std::size_t bytes, std::size_t offset,
                                    cudaMemcpyKind kind, cudaStream_t stream) {
  const std::lock_guard lock(runtime_mutex());
  std::uint64_t address = 0;
  if (!find_variable(symbol, address)) return ended(cudaErrorInvalidSymbol);
  if (address == 0) return cudaSuccess;  // no kernel uses it
  return cudaMemcpyAsync(reinterpret_cast<void*>(address + offset), from, bytes, kind, stream);
}
cudaError_t cudaMemset(void* to, int value, std::size_t bytes) { return fill(to, value, bytes, null_stream(), true); }
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  return fill(to, value, bytes, stream_of(stream), false);
}

}  // extern "C"
