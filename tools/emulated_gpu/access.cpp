// What a thread may touch: bounds and alignment.
#include <fmt/format.h>

#include <cstdlib>

#include "memory.hpp"
#include "warp.hpp"

namespace emulated_gpu {
bool is_set(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr && *text != '\0' && *text != '0';
}

void fault(const Warp& warp, const Instruction& instruction, int lane, const std::string& what) {
  const Block& block = *warp.block;
  const Kernel& kernel = *block.launch->kernel;
  fail(fmt::format("thread {} of block {},{},{} {}\n  in line {}: {}\n  of {}",
                   warp.index * lanes_of_warp + std::uint32_t(lane), block.index.x, block.index.y, block.index.z, what,
                   instruction.line, kernel.module->line(instruction.line), kernel.name));
}

std::byte* place(Warp& warp, const Instruction& instruction, int lane, Space space, std::uint64_t address,
                 std::size_t bytes, Access access) {
  if (address % bytes != 0)
    fault(warp, instruction, lane, fmt::format("touches {} bytes at {:#x}, no multiple of it", bytes, address));
  if (space == Space::generic && address - shared_window < window_size) {
    space = Space::shared;
    address -= shared_window;
  } else if (space == Space::generic && address - local_window < window_size) {
    space = Space::local;
    address -= local_window;
  }
  Block& block = *warp.block;
  if (space == Space::shared) {
    const std::uint64_t offset = address - first_shared;
    if (address < first_shared || offset + bytes > block.shared.size())
      fault(warp, instruction, lane,
            fmt::format("touches {} bytes at {} of {} bytes of shared memory", bytes, std::int64_t(offset),
                        block.shared.size()));
    if (block.launch->looks_for_races) note(warp, instruction, lane, Space::shared, offset, bytes, access);
    return block.shared.data() + offset;
  }
  if (space == Space::local) {
    const std::size_t each = block.launch->kernel->local_bytes;
    if (address + bytes > each)
      fault(warp, instruction, lane,
            fmt::format("touches {} bytes at {} of {} bytes of local memory", bytes, address, each));
    return warp.local.data() + std::size_t(lane) * each + address;
  }
  std::byte* data = found(address, bytes);
  if (data == nullptr)
    fault(warp, instruction, lane, fmt::format("touches {} bytes at {:#x}, which no allocation has", bytes, address));
  if (block.launch->looks_for_races && is_device(address))
    note(warp, instruction, lane, Space::global, address, bytes, access);
  return data;
}

}  // namespace emulated_gpu
