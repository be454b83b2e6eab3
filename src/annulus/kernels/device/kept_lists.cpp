#include "annulus/kernels/device/kept_lists.hpp"

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace annulus::kernels::device {
namespace {

constexpr core::Index least_bytes = 1 << 16;

std::vector<core::Buffer>& kept() {
  static std::vector<core::Buffer> all = [] {
    Kokkos::push_finalize_hook(release_kept_lists);
    return std::vector<core::Buffer>();
  }();
  return all;
}

}  // namespace

core::Buffer kept_list(core::Index bytes) {
  if (bytes == 0) return {};
  std::vector<core::Buffer>& all = kept();
  for (const core::Buffer& one : all) {
    if (!one.is_shared() && one.bytes() >= bytes) return one;
  }
  release_kept_lists();  // those that have become too small
  const auto rounded = core::Index(std::bit_ceil(std::uint64_t(std::max(bytes, least_bytes))));
  return all.emplace_back("work list", rounded);
}

void release_kept_lists() {
  std::erase_if(kept(), [](const core::Buffer& one) { return !one.is_shared(); });
}

}  // namespace annulus::kernels::device
