#include "annulus/kernels/device/kept_lists.hpp"

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <bit>
#include <cstdint>

#include "annulus/core/huge_pages.hpp"

namespace annulus::kernels::device {
namespace {

using core::Index;

constexpr Index least_bytes = 1 << 16;
constexpr Index large_bytes = Index(1) << 26;  // above this, rounding up to a power of two would waste too much

Index rounded(Index bytes) {
  if (bytes > large_bytes) return core::ceil_div(bytes, core::huge_page_bytes) * core::huge_page_bytes;
  return Index(std::bit_ceil(std::uint64_t(std::max(bytes, least_bytes))));
}

struct Kept {
  std::string purpose;
  core::Buffer buffer;
  std::weak_ptr<const void> source = {};  // set by kept_form() only

  bool is_of(const std::shared_ptr<const void>& other) const {
    return !source.owner_before(other) && !other.owner_before(source);
  }
  bool has_lost_source() const { return source.expired() && !is_of(nullptr); }
};

std::vector<Kept>& kept() {
  static std::vector<Kept> all = [] {
    Kokkos::push_finalize_hook(release_kept_lists);
    return std::vector<Kept>();
  }();
  std::erase_if(all, [](const Kept& one) { return one.has_lost_source(); });
  return all;
}

}  // namespace

core::Buffer kept_memory(const std::string& purpose, core::Index bytes) {
  if (bytes == 0) return {};
  std::vector<Kept>& all = kept();
  for (const Kept& one : all) {
    if (one.purpose == purpose && !one.buffer.is_shared() && one.buffer.bytes() >= bytes) return one.buffer;
  }
  std::erase_if(all, [&](const Kept& one) {  // unused buffers that are too small
    return one.purpose == purpose && !one.buffer.is_shared();
  });
  return all.emplace_back(Kept{purpose, core::Buffer(purpose, rounded(bytes))}).buffer;
}

core::Buffer kept_form(const std::string& purpose, const std::shared_ptr<const void>& source, core::Index bytes,
                       const std::function<void(void*)>& fill) {
  std::vector<Kept>& all = kept();
  for (const Kept& one : all) {
    if (one.purpose == purpose && one.buffer.bytes() == bytes && one.is_of(source)) return one.buffer;
  }
  std::erase_if(all, [&](const Kept& one) { return one.purpose == purpose && !one.buffer.is_shared(); });
  const core::Buffer made(purpose, bytes);
  fill(made.data());
  return all.emplace_back(Kept{purpose, made, source}).buffer;
}

core::Buffer kept_list(core::Index bytes) { return kept_memory("work list", bytes); }

void release_kept_lists() {
  std::erase_if(kept(), [](const Kept& one) { return !one.buffer.is_shared(); });
}

}  // namespace annulus::kernels::device
