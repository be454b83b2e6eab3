#include "memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "warp.hpp"

namespace emulated_gpu {
namespace {

constexpr std::size_t grain = 256, red_zone = 256, page = 4096;
/// There are more addresses than bytes, because a GPU can map a large allocation to pages anywhere.
constexpr std::size_t addresses_per_byte = 16;

struct Arena {
  Arena() {
    const char* text = std::getenv("EMULATED_GPU_MEMORY");
    limit = text != nullptr ? std::size_t(std::atoll(text)) << 20 : std::size_t(6) << 30;
    size = limit * addresses_per_byte;
    const int file = memfd_create("emulated_gpu", 0);
    if (file < 0 || ftruncate(file, off_t(size)) != 0) std::abort();
    void* shown = mmap(nullptr, size, PROT_NONE, MAP_SHARED | MAP_NORESERVE, file, 0);
    void* own = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    void* marks = mmap(nullptr, size / 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (shown == MAP_FAILED || own == MAP_FAILED || marks == MAP_FAILED) std::abort();
    close(file);
    base = reinterpret_cast<std::uint64_t>(shown);
    data = static_cast<std::byte*>(own);
    valid = static_cast<std::uint8_t*>(marks);
    free[base] = size;
  }

  std::uint64_t base = 0;
  std::size_t size = 0;  // of the addresses
  std::size_t limit = 0, used = 0;
  std::byte* data = nullptr;
  std::uint8_t* valid = nullptr;  // for each 8 bytes: how many, from the first on, may be touched
  Touched* touched = nullptr;
  std::map<std::uint64_t, std::size_t> free, taken;  // taken: bytes asked for
  std::map<std::uint64_t, std::size_t> pinned;
  std::mutex mutex;
};

Arena& arena() {
  static Arena* const it = new Arena;  // never destroyed: other destructors free memory
  return *it;
}

std::size_t whole(std::size_t bytes) { return (bytes + grain - 1) / grain * grain + red_zone; }

void mark(Arena& a, std::uint64_t address, std::size_t bytes, bool valid) {
  std::uint8_t* marks = a.valid + (address - a.base) / 8;
  std::memset(marks, valid ? 8 : 0, bytes / 8);
  if (bytes % 8 != 0) marks[bytes / 8] = std::uint8_t(valid ? bytes % 8 : 0);
}

Range range_in(const std::map<std::uint64_t, std::size_t>& ranges, std::uint64_t address) {
  auto next = ranges.upper_bound(address);
  if (next == ranges.begin()) return {};
  --next;
  if (address >= next->first + (next->second == 0 ? 1 : next->second)) return {};
  return {next->first, next->second};
}

}  // namespace

std::uint64_t allocate(std::size_t bytes) {
  Arena& a = arena();
  const std::lock_guard lock(a.mutex);
  const std::size_t needed = whole(bytes);
  if (needed > a.limit - a.used) return 0;
  for (auto hole = a.free.begin(); hole != a.free.end(); ++hole) {
    if (hole->second < needed) continue;
    const std::uint64_t address = hole->first;
    const std::size_t rest = hole->second - needed;
    a.free.erase(hole);
    if (rest > 0) a.free[address + needed] = rest;
    a.taken[address] = bytes;
    a.used += needed;
    mark(a, address, bytes, true);
    std::memset(a.data + (address - a.base), 0xff, bytes);
    return address;
  }
  return 0;
}

bool free_device(std::uint64_t address) {
  Arena& a = arena();
  const std::lock_guard lock(a.mutex);
  const auto entry = a.taken.find(address);
  if (entry == a.taken.end()) return false;
  const std::size_t needed = whole(entry->second);
  mark(a, address, entry->second, false);
  const std::uint64_t first = (address - a.base + page - 1) / page * page;  // whole pages are given back to the host
  const std::uint64_t last = (address - a.base + needed) / page * page;
  if (first < last) madvise(a.data + first, last - first, MADV_REMOVE);
  a.used -= needed;
  a.taken.erase(entry);
  auto hole = a.free.emplace(address, needed).first;
  const auto next = std::next(hole);
  if (next != a.free.end() && hole->first + hole->second == next->first) {
    hole->second += next->second;
    a.free.erase(next);
  }
  if (hole != a.free.begin()) {
    const auto before = std::prev(hole);
    if (before->first + before->second == hole->first) {
      before->second += hole->second;
      a.free.erase(hole);
    }
  }
  return true;
}

std::size_t bytes_in_use() { return arena().used; }
std::size_t bytes_of_all() { return arena().limit; }

bool is_device(std::uint64_t address) { return address - arena().base < arena().size; }

Range allocation_of(std::uint64_t address) {
  Arena& a = arena();
  const std::lock_guard lock(a.mutex);
  return range_in(a.taken, address);
}

Touched* touched_at(std::uint64_t address) {
  Arena& a = arena();
  const std::lock_guard lock(a.mutex);
  if (a.touched == nullptr) {  // pages that are never written take no memory
    void* all = mmap(nullptr, a.size * sizeof(Touched), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) std::abort();
    a.touched = static_cast<Touched*>(all);
  }
  return a.touched + (address - a.base);
}

void add_pinned(const void* first, std::size_t bytes) {
  Arena& a = arena();
  const std::lock_guard lock(a.mutex);
  a.pinned[reinterpret_cast<std::uint64_t>(first)] = bytes;
}

bool remove_pinned(const void* first) {
  Arena& a = arena();
  const std::lock_guard lock(a.mutex);
  return a.pinned.erase(reinterpret_cast<std::uint64_t>(first)) > 0;
}

Range pinned_of(std::uint64_t address) {
  Arena& a = arena();
  const std::lock_guard lock(a.mutex);
  return range_in(a.pinned, address);
}

std::byte* found(std::uint64_t address, std::size_t bytes) {
  Arena& a = arena();
  if (const std::uint64_t offset = address - a.base; offset < a.size) {
    if (bytes <= 16) {
      const std::uint64_t last = offset + bytes - 1;
      for (std::uint64_t i = offset / 8; i < last / 8; ++i)
        if (a.valid[i] < 8) return nullptr;
      if (a.valid[last / 8] <= last % 8) return nullptr;
    } else {
      const Range range = allocation_of(address);
      if (range.first == 0 || address + bytes > range.first + range.bytes) return nullptr;
    }
    return a.data + offset;
  }
  const Range range = pinned_of(address);
  if (range.bytes == 0 || address + bytes > range.first + range.bytes) return nullptr;
  return reinterpret_cast<std::byte*>(address);
}

std::byte* found_anywhere(std::uint64_t address, std::size_t bytes) {
  if (is_device(address)) return found(address, bytes);
  return reinterpret_cast<std::byte*>(address);
}

}  // namespace emulated_gpu
