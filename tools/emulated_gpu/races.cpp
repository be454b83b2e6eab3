// Which thread touched a byte last, and whether anything orders that access before the next one.
#include <fmt/format.h>

#include "memory.hpp"
#include "warp.hpp"

namespace emulated_gpu {
namespace {

constexpr std::uint16_t many_threads = 0xffff;

/// Whether an access by this thread races with one that was noted.
bool races(const Warp& warp, std::uint16_t thread, const Touch& other) {
  const Block& block = *warp.block;
  if (other.thread == 0 || other.block < block.launch->first_block) return false;
  if (other.block != block.number || other.by_several_blocks) return !block.launch->kernel->has_fences;
  if (other.thread == thread || other.epoch != block.epoch) return false;
  return other.thread == many_threads || std::uint32_t(other.thread - 1) / lanes_of_warp != warp.index ||
         other.epoch_in_warp == warp.epoch;
}

std::string name_of(const Touch& touch, const Block& block) {
  if (touch.block != block.number || touch.by_several_blocks) return "a thread of another block";
  return touch.thread == many_threads ? "a thread" : fmt::format("thread {}", touch.thread - 1);
}

std::string name_of(Space space, std::uint64_t address) {
  if (space == Space::shared) return fmt::format("byte {} of shared memory", address);
  const Range range = allocation_of(address);
  return fmt::format("byte {} of {} bytes of device memory", address - range.first, range.bytes);
}

}  // namespace

void note(Warp& warp, const Instruction& instruction, int lane, Space space, std::uint64_t address, std::size_t count,
          Access access) {
  Block& block = *warp.block;
  Touched* bytes = space == Space::shared ? block.touched.data() + address : touched_at(address);
  const auto thread = std::uint16_t(warp.index * lanes_of_warp + std::uint32_t(lane) + 1);
  const Touch mine{thread, block.number, block.epoch, warp.epoch};
  const bool is_atomic = access == Access::atomic;
  for (std::size_t i = 0; i < count; ++i) {
    Touched& touched = bytes[i];
    const auto check = [&](const Touch& other, const char* did) {
      if (!races(warp, thread, other)) return;
      fault(warp, instruction, lane,
            fmt::format("races with {}, which {} {}", name_of(other, block), did, name_of(space, address + i)));
    };
    if (!is_atomic || !touched.was_atomic) check(touched.written, "wrote");
    if (access != Access::read) check(touched.read, "read");
    if (access != Access::read) {
      touched.written = mine;
      touched.was_atomic = is_atomic;
      continue;
    }
    Touch& read = touched.read;
    const bool in_this_launch = read.thread != 0 && read.block >= block.launch->first_block;
    const bool in_this_epoch = in_this_launch && read.block == block.number && read.epoch == block.epoch;
    const bool by_several_blocks = in_this_launch && (read.by_several_blocks || read.block != block.number);
    const bool by_several_threads = in_this_epoch && read.thread != thread;
    read = mine;
    read.by_several_blocks = by_several_blocks;
    if (by_several_threads) read.thread = many_threads;
  }
}

}  // namespace emulated_gpu
