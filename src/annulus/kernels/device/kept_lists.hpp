// Keeps device memory for lists (work lists, lists of copies), partial states, coordinates and cuDNN's results from
// call to call, because a GPU stops its work for every allocation. Only one thread at a time may call these functions.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "annulus/core/buffer.hpp"

namespace annulus::kernels::device {

/// Returns a buffer of `bytes` bytes or more that is not in use. If a buffer of an earlier call for this purpose is
/// large enough, the function returns that buffer, otherwise a new one. A buffer is in use as long as a caller has a
/// copy of it.
core::Buffer kept_memory(const std::string& purpose, core::Index bytes);
/// The same for the purpose "work list", which lists of all kinds share.
core::Buffer kept_list(core::Index bytes);
/// Copies a list's elements into such a buffer; complete on return.
template <class Element>
core::Buffer kept_copy(const std::vector<Element>& elements) {
  const auto bytes = core::Index(elements.size() * sizeof(Element));
  core::Buffer buffer = kept_list(bytes);
  core::copy_to_device(buffer.data(), elements.data(), bytes);
  return buffer;
}
/// Returns a buffer of `bytes` bytes that `fill` has filled from `source`. `source` must not change, because the
/// function returns the buffer of an earlier call with the same purpose, source and number of bytes if there is one. A
/// buffer is kept until the first call after its source is destroyed, or until a new buffer for the same purpose
/// replaces it while it is not in use.
core::Buffer kept_form(const std::string& purpose, const std::shared_ptr<const void>& source, core::Index bytes,
                       const std::function<void(void* device)>& fill);

/// Frees the buffers that are not in use. Kokkos calls this before it ends. Other callers call it only between kernel
/// calls.
void release_kept_lists();

}  // namespace annulus::kernels::device
