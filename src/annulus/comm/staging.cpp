#include "annulus/comm/staging.hpp"

#include "annulus/core/buffer.hpp"

namespace annulus::comm {
namespace {

/// Calls copy(address in the block, address in the packed copy, bytes) for every part.
template <class Copy>
void for_each_part(const RowBlock& block, std::byte* packed, Copy&& copy) {
  const Index bytes = block.rows.size() * block.row_bytes;
  for (Index part = 0; part < block.parts; ++part) {
    auto* at = static_cast<std::byte*>(block.data) + (part * block.held + block.rows.begin) * block.row_bytes;
    copy(at, packed + part * bytes, bytes);
  }
}

}  // namespace

Staged::Staged(const RowBlock& block) : origin_(block), visible_(block) {
  if (core::device_is_host() || block.rows.empty()) return;
  copy_.resize(std::size_t(block.bytes()));
  visible_ = {copy_.data(), block.parts, block.rows.size(), block.row_bytes, {0, block.rows.size()}};
}

void Staged::load() {
  if (copy_.empty()) return;
  for_each_part(origin_, copy_.data(), [](void* device, void* host, Index n) { core::copy_to_host(host, device, n); });
}

void Staged::store() {
  if (copy_.empty()) return;
  for_each_part(origin_, copy_.data(),
                [](void* device, void* host, Index n) { core::copy_to_device(device, host, n); });
}

}  // namespace annulus::comm
