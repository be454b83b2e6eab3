// A launch as it runs: its blocks, their warps, and the memory that these have.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <vector>

#include "program.hpp"

namespace emulated_gpu {

struct Dim3 {
  std::uint32_t x = 1, y = 1, z = 1;
  std::uint64_t count() const { return std::uint64_t(x) * y * z; }
};

struct Launch {
  const Kernel* kernel = nullptr;
  Dim3 grid, block;
  std::uint32_t dynamic_bytes = 0;  // of shared memory
  std::vector<std::byte> parameters;
  std::uint64_t parameter_address = 0;  // where kernels see them, too
  std::uint32_t first_block = 0;        // Block::number of the first one
  bool looks_for_races = false;
};

/// Runs all blocks, one after another; ends the program if one does what a GPU forbids.
void run(Launch& launch);

/// An asynchronous copy into shared memory that has been asked for and has not arrived yet.
struct Copy {
  std::uint32_t group;
  std::uint32_t to;
  std::array<std::byte, 16> data;
  std::uint8_t bytes;
};

/// An access to a byte: by which thread (thread + 1; 0: none) and block (counted over all launches), and when: epochs
/// count barriers, of the block and of the warp.
struct Touch {
  std::uint16_t thread = 0;
  std::uint32_t block = 0, epoch = 0, epoch_in_warp = 0;
  bool by_several_blocks = false;  // of the same launch
};
/// The last accesses to a byte.
struct Touched {
  Touch written, read;
  bool was_atomic = false;  // `written` was
};

struct Block;

struct Warp {
  template <class T>
  T* row(std::uint32_t at) {
    return reinterpret_cast<T*>(registers + at);
  }

  std::byte* registers = nullptr;
  Block* block = nullptr;
  std::uint32_t index = 0;
  std::array<std::uint32_t, lanes_of_warp> pc{};
  // Lanes: each that has not exited is ready, blocked (waits for other lanes of the warp) or at a barrier.
  std::uint32_t ready = 0, blocked = 0, at_barrier = 0, exited = 0;
  std::array<std::uint32_t, lanes_of_warp> barrier{}, barrier_threads{};
  std::uint32_t epoch = 0;
  std::array<std::vector<Copy>, lanes_of_warp> copies;
  std::array<std::uint32_t, lanes_of_warp> group{};  // present group of copies
  std::vector<std::byte> local;
};

struct Block {
  Launch* launch = nullptr;
  Dim3 index;
  std::vector<std::byte> shared;
  std::vector<Touched> touched;  // of shared memory, where races are looked for
  std::vector<Warp> warps;
  std::uint32_t number = 0, epoch = 0;
};

template <class Function>
inline void for_lanes(std::uint32_t lanes, const Function& function) {
  if (lanes == all_lanes) {
    for (int lane = 0; lane < lanes_of_warp; ++lane) function(lane);
  } else {
    for (; lanes != 0; lanes &= lanes - 1) function(std::countr_zero(lanes));
  }
}

/// Ends the program and says what a thread did where.
[[noreturn]] void fault(const Warp& warp, const Instruction& instruction, int lane, const std::string& what);

enum class Space { generic, global, shared, local };
enum class Access { read, write, atomic };

/// Where `bytes` bytes at an address of a space are, for one lane. Ends the program if they do not exist, if the
/// address is no multiple of `bytes`, or if races are looked for and this access is one.
std::byte* place(Warp& warp, const Instruction& instruction, int lane, Space space, std::uint64_t address,
                 std::size_t bytes, Access access);

/// Notes an access to `count` bytes of shared (from the block's first one on) or device memory. Ends the program if it
/// races with another access of this launch: by another thread, one of both writes, not both are atomic, and no barrier
/// of the block (or, in one warp, of the warp) comes between them. No barrier orders blocks. A kernel with fences may
/// order its blocks itself, so accesses of different blocks are not checked in it.
void note(Warp& warp, const Instruction& instruction, int lane, Space space, std::uint64_t address, std::size_t count,
          Access access);

/// Whether an environment variable is set to anything except 0.
bool is_set(const char* name);

}  // namespace emulated_gpu
