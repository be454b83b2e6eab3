#include "annulus/comm/host_pool.hpp"

#include <Kokkos_Core.hpp>
#include <utility>
#include <vector>

namespace annulus::comm {
namespace {

using core::Index;

// take_host_memory() rounds sizes up to a multiple of this number, so that messages that differ by a few rows can reuse
// the same memory.
constexpr Index rounding_bytes = 1 << 16;

struct Kept {
  core::HostMemory memory;
  core::CopyQueue* queue;
  core::When until;
};

struct Pool {
  std::vector<Kept> kept;
  Index in_use = 0;
};

Pool& pool() {
  static Pool one = [] {
    Kokkos::push_finalize_hook(release_all_host_memory);
    return Pool();
  }();
  return one;
}

bool is_free(Kept& one) {
  if (one.until && one.queue->is_over(one.until)) one.until = nullptr;
  return one.until == nullptr;
}

}  // namespace

core::HostMemory take_host_memory(Index bytes) {
  std::vector<Kept>& kept = pool().kept;
  Kept* best = nullptr;
  for (Kept& one : kept) {
    const bool better = best == nullptr || one.memory.bytes() < best->memory.bytes();
    if (one.memory.bytes() >= bytes && better && is_free(one)) best = &one;
  }
  core::HostMemory taken;
  if (best != nullptr) {
    taken = std::move(best->memory);
    kept.erase(kept.begin() + (best - kept.data()));
  } else {
    release_host_memory();  // all kept memory that no copy uses is too small
    taken = core::HostMemory(core::ceil_div(bytes, rounding_bytes) * rounding_bytes);
  }
  pool().in_use += taken.bytes();
  return taken;
}

void keep_host_memory(core::HostMemory memory, core::CopyQueue& queue, core::When until) {
  pool().in_use -= memory.bytes();
  pool().kept.push_back({std::move(memory), &queue, std::move(until)});
}

void abandon_host_memory(core::HostMemory memory) {
  static auto* const abandoned = new std::vector<core::HostMemory>();  // never destroyed
  pool().in_use -= memory.bytes();
  abandoned->push_back(std::move(memory));
}

Index kept_host_bytes() {
  Index bytes = pool().in_use;
  for (const Kept& one : pool().kept) bytes += one.memory.bytes();
  return bytes;
}

void release_host_memory() { std::erase_if(pool().kept, is_free); }

void release_all_host_memory() {
  while (!pool().kept.empty()) release_host_memory();
}

}  // namespace annulus::comm
