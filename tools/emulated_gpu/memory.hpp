// The emulated GPU's memory. Device memory lies at addresses that the host cannot touch: its pages are mapped twice,
// once without any rights where programs see them, once for the emulator. A host that uses a device pointer, or hands
// one to an MPI that is not GPU-aware, ends with a segmentation fault, as on a machine with a GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace emulated_gpu {

/// Addresses of shared and local memory among generic ones; no address of a host looks like that.
inline constexpr std::uint64_t shared_window = std::uint64_t(1) << 56, local_window = std::uint64_t(2) << 56;
inline constexpr std::uint64_t window_size = std::uint64_t(1) << 32;

/// Allocates device memory, filled with one bits (NaN in every float type), between bytes that must not be touched.
/// Returns an address, a multiple of 256 as in CUDA; 0 if there is not enough memory.
std::uint64_t allocate(std::size_t bytes);
/// Returns false if nothing was allocated there.
bool free_device(std::uint64_t address);
/// Bytes in use, and bytes in total.
std::size_t bytes_in_use();
std::size_t bytes_of_all();

bool is_device(std::uint64_t address);
/// First address and bytes of the allocation that contains an address; 0 bytes if there is none.
struct Range {
  std::uint64_t first = 0;
  std::size_t bytes = 0;
};
Range allocation_of(std::uint64_t address);

/// The accesses noted for each byte from an address of device memory on (warp.hpp), if races are looked for.
struct Touched;
Touched* touched_at(std::uint64_t address);

/// Host memory that kernels may touch: pinned, or managed.
void add_pinned(const void* first, std::size_t bytes);
bool remove_pinned(const void* first);
Range pinned_of(std::uint64_t address);

/// Where the emulator finds these bytes; null unless all are in one allocation, on the device or pinned.
std::byte* found(std::uint64_t address, std::size_t bytes);
/// The same, but also in other host memory: for copies.
std::byte* found_anywhere(std::uint64_t address, std::size_t bytes);

}  // namespace emulated_gpu
