// Keeps device memory for work lists, partial states and coordinates from call to call, because a GPU stops for every
// allocation.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "annulus/core/buffer.hpp"

namespace annulus::kernels::device {

/// Returns a buffer of `bytes` or more that no other call uses: one of an earlier call for this purpose if it is large
/// enough, otherwise a new one. It is free again when its last copy is destroyed. Only one thread may call.
core::Buffer kept_memory(const std::string& purpose, core::Index bytes);
/// The same for a work list.
core::Buffer kept_list(core::Index bytes);
/// A list's elements in such a buffer; complete on return.
template <class Element>
core::Buffer kept_copy(const std::vector<Element>& elements) {
  const auto bytes = core::Index(elements.size() * sizeof(Element));
  core::Buffer buffer = kept_list(bytes);
  core::copy_to_device(buffer.data(), elements.data(), bytes);
  return buffer;
}
/// Returns a buffer of `bytes` bytes that `fill` has filled from `source`, which must not change. If an earlier call
/// had the same source and as many bytes, this is its buffer, otherwise a new one. A buffer is kept until the first
/// call after its source is destroyed. A new buffer replaces those for the same purpose that are not in use.
core::Buffer kept_form(const std::string& purpose, const std::shared_ptr<const void>& source, core::Index bytes,
                       const std::function<void(void* device)>& fill);

/// Frees the buffers that no call uses. Kokkos calls this before it ends; others call it only between kernel calls.
void release_kept_lists();

}  // namespace annulus::kernels::device
