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

/// Device memory, filled with ones (NaN as any float), between neighbours that are not to be touched; 0 where there is
/// not enough. Multiples of 256, as CUDA's.
std::uint64_t allocate(std::size_t bytes);
/// False where nothing was allocated there.
bool free_device(std::uint64_t address);
/// Bytes in use, and of all.
std::size_t bytes_in_use();
std::size_t bytes_of_all();

bool is_device(std::uint64_t address);
/// The first and the number of bytes of the allocation that an address lies in; 0 bytes where there is none.
struct Range {
  std::uint64_t first = 0;
  std::size_t bytes = 0;
};
Range allocation_of(std::uint64_t address);

/// What is noted of each byte from an address of device memory on (warp.hpp), where races are looked for.
struct Touched;
Touched* touched_at(std::uint64_t address);

/// Host memory that kernels may touch: pinned, or managed.
void add_pinned(const void* first, std::size_t bytes);
bool remove_pinned(const void* first);
Range pinned_of(std::uint64_t address);

/// Where the emulator finds these bytes; null where they are not (all) in an allocation of the device or pinned.
std::byte* found(std::uint64_t address, std::size_t bytes);
/// The same, of a host's memory, too: for copies.
std::byte* found_anywhere(std::uint64_t address, std::size_t bytes);

}  // namespace emulated_gpu
