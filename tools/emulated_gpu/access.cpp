// What a thread may touch: bounds, alignment, races.
#include <fmt/format.h>

#include <cstdlib>

#include "memory.hpp"
#include "warp.hpp"

namespace emulated_gpu {
namespace {

constexpr std::uint16_t many = 0xffff;

/// Notes an access to shared memory. Two of them race when they are of different threads, one writes, and no barrier of
/// the block (or, in one warp, of the warp) stands between them.
void note(Warp& warp, const Instruction& instruction, int lane, std::uint64_t offset, std::size_t bytes,
          Access access) {
  Block& block = *warp.block;
  const auto thread = std::uint16_t(warp.index * lanes_of_warp + std::uint32_t(lane) + 1);
  const auto is_race = [&](std::uint16_t other, std::uint32_t epoch, std::uint32_t epoch_in_warp) {
    if (other == 0 || other == thread || epoch != block.epoch) return false;
    return other == many || std::uint32_t(other - 1) / lanes_of_warp != warp.index || epoch_in_warp == warp.epoch;
  };
  for (std::size_t i = 0; i < bytes; ++i) {
    Touched& touched = block.touched[offset + i];
    if (is_race(touched.writer, touched.written, touched.written_in_warp))
      fault(warp, instruction, lane,
            fmt::format("races with thread {}, which wrote byte {} of shared memory", touched.writer - 1, offset + i));
    if (access == Access::write && is_race(touched.reader, touched.read, touched.read_in_warp))
      fault(warp, instruction, lane, fmt::format("races with a thread that read byte {} of shared memory", offset + i));
    if (access == Access::write) {
      touched.writer = thread;
      touched.written = block.epoch;
      touched.written_in_warp = warp.epoch;
    } else {
      const bool is_first = touched.reader == 0 || touched.read != block.epoch || touched.reader == thread;
      touched.reader = is_first ? thread : many;
      touched.read = block.epoch;
      touched.read_in_warp = warp.epoch;
    }
  }
}

}  // namespace

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
    if (!block.touched.empty() && access != Access::atomic) note(warp, instruction, lane, offset, bytes, access);
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
  return data;
}

}  // namespace emulated_gpu
