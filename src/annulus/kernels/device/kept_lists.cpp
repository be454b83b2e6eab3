#include "annulus/kernels/device/kept_lists.hpp"

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace annulus::kernels::device {
namespace {

constexpr core::Index least_bytes = 1 << 16;

struct Kept {
  std::string purpose;
  core::Buffer buffer;
};

std::vector<Kept>& kept() {
  static std::vector<Kept> all = [] {
    Kokkos::push_finalize_hook(release_kept_lists);
    return std::vector<Kept>();
  }();
  return all;
}

}  // namespace

core::Buffer kept_memory(const std::string& purpose, core::Index bytes) {
  if (bytes == 0) return {};
  std::vector<Kept>& all = kept();
  for (const Kept& one : all) {
    if (one.purpose == purpose && !one.buffer.is_shared() && one.buffer.bytes() >= bytes) return one.buffer;
  }
  release_kept_lists();  // those that have become too small
  const auto rounded = core::Index(std::bit_ceil(std::uint64_t(std::max(bytes, least_bytes))));
  return all.emplace_back(Kept{purpose, core::Buffer(purpose, rounded)}).buffer;
}

core::Buffer kept_list(core::Index bytes) { return kept_memory("work list", bytes); }

void release_kept_lists() {
  std::erase_if(kept(), [](const Kept& one) { return !one.buffer.is_shared(); });
}

}  // namespace annulus::kernels::device
