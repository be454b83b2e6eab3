// Keeps device memory for lists (of work, copies), partial states, coordinates and cuDNN's results from call to call,
// because a GPU stops its work for every allocation. Only one thread at a time may call these functions.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "annulus/core/buffer.hpp"

namespace annulus::kernels::device {

/// Returns a buffer of `bytes` or more that is not in use: one of an earlier call for this purpose if it is large
/// enough, otherwise a new one. A buffer is in use as long as the caller has a copy of it.
core::Buffer kept_memory(const std::string& purpose, core::Index bytes);
/// The same for a list of any kind, such as a work list.
core::Buffer kept_list(core::Index bytes);
/// Copies a list's elements into such a buffer; complete on return.
template <class Element>
core::Buffer kept_copy(const std::vector<Element>& elements) {
  const auto bytes = core::Index(elements.size() * sizeof(Element));
  core::Buffer buffer = kept_list(bytes);
  core::copy_to_device(buffer.data(), elements.data(), bytes);
  return buffer;
}
/// Returns a buffer of `bytes` bytes that `fill` has filled from `source`, which must not change: the buffer of an
/// earlier call with the same purpose, source and number of bytes, or otherwise a new one. A buffer is kept until the
/// first call after its source is destroyed. A new buffer replaces those for the same purpose that are not in use.
core::Buffer kept_form(const std::string& purpose, const std::shared_ptr<const void>& source, core::Index bytes,
                       const std::function<void(void* device)>& fill);

/// Frees the buffers that are not in use. Kokkos calls this before it ends; others call it only between kernel calls.
void release_kept_lists();

}  // namespace annulus::kernels::device
