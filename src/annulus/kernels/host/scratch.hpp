// A thread's memory for the panels of its tasks, kept from task to task and from call to call.
#pragma once

#include "annulus/core/huge_pages.hpp"

namespace annulus::kernels::host {

/// The memory has the size that the largest task of this thread has needed so far. The memory ledger counts this memory
/// as "kernel scratch", without the bytes that only fill the last huge page.
class Scratch {
 public:
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch();

  /// Calls make(scratch), which takes arrays from this memory, and returns what make() returns. Arrays taken before
  /// become invalid; the memory's content is undefined. Throws Error if there is not enough memory.
  template <class Make>
  auto fill(const Make& make) {
    start(bytes_of(make));
    return make(*this);
  }
  /// Returns how many bytes make(scratch) takes.
  template <class Make>
  static core::Index bytes_of(const Make& make) {
    Scratch measure;
    make(measure);
    return measure.used_;
  }

  /// Takes `count` numbers of T, aligned to a cache line.
  template <class T>
  T* take(core::Index count) {
    T* taken = memory_ == nullptr ? nullptr : reinterpret_cast<T*>(memory_ + used_);
    used_ += core::ceil_div(count * core::Index(sizeof(T)), cache_line) * cache_line;
    return taken;
  }
  /// Returns `count`, rounded up so that this many numbers of T fill whole cache lines.
  template <class T>
  static core::Index whole_lines(core::Index count) {
    constexpr core::Index each = cache_line / core::Index(sizeof(T));
    return core::ceil_div(count, each) * each;
  }

  static Scratch& of_this_thread();

  /// Gives the memory back to the system.
  void release();

 private:
  /// Returns the alignment of a block of `bytes` bytes: a huge page if the block takes at least one, otherwise a cache
  /// line.
  static core::Index alignment(core::Index bytes) {
    return core::in_huge_pages(bytes) >= core::huge_page_bytes ? core::huge_page_bytes : cache_line;
  }
  void free() const;

  /// Makes this memory at least `bytes` large. Arrays taken before become invalid.
  void start(core::Index bytes);

  static constexpr core::Index cache_line = 64;
  std::byte* memory_ = nullptr;
  core::Index size_ = 0;
  core::Index used_ = 0;
};

}  // namespace annulus::kernels::host
