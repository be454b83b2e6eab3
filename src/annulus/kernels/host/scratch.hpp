// Memory of one thread for the panels of its task, kept from task to task and call to call.
#pragma once

#include "annulus/core/types.hpp"

namespace annulus::kernels::host {

/// Grows to the largest task this thread has met; counted in the memory ledger as "kernel scratch".
class Scratch {
 public:
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch();

  /// Makes room for `bytes` and forgets what was taken. What the memory holds is undefined. Throws Error.
  void start(core::Index bytes);

  /// `count` numbers of T, aligned to a cache line, from what start() made room for.
  template <class T>
  T* take(core::Index count) {
    T* taken = reinterpret_cast<T*>(memory_ + used_);
    used_ += bytes_for<T>(count);
    return taken;
  }
  template <class T>
  static core::Index bytes_for(core::Index count) {
    return core::ceil_div(count * core::Index(sizeof(T)), cache_line) * cache_line;
  }

  /// The calling thread's own.
  static Scratch& of_this_thread();

 private:
  static constexpr core::Index cache_line = 64;
  std::byte* memory_ = nullptr;
  core::Index size_ = 0;
  core::Index used_ = 0;
};

}  // namespace annulus::kernels::host
