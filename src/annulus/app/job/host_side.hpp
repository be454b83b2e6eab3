// A buffer's bytes in host memory: the buffer itself, or a copy if the buffer is in a GPU's memory. The copy has the
// buffer's numbers only after from_device().
#pragma once

#include <vector>

#include "annulus/core/buffer.hpp"
#include "annulus/core/kokkos_compat.hpp"

namespace annulus::app {

class HostSide {
 public:
  HostSide(void* device, core::Index bytes) : device_(device), bytes_(bytes) {
    if (!core::device_is_host()) copy_.resize(std::size_t(bytes));
  }
  explicit HostSide(const core::Buffer& buffer) : HostSide(buffer.data(), buffer.bytes()) {}

  core::Index bytes() const { return bytes_; }
  void* data() { return copy_.empty() ? device_ : copy_.data(); }
  void to_device() {
    if (!copy_.empty()) core::copy_to_device(device_, copy_.data(), bytes_);
  }
  void from_device() {
    if (!copy_.empty()) core::copy_to_host(copy_.data(), device_, bytes_);
  }

 private:
  void* device_;
  core::Index bytes_;
  std::vector<std::byte> copy_;
};

}  // namespace annulus::app
