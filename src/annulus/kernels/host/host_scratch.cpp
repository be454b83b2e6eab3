#include <Kokkos_Core.hpp>
#include <new>

#include "annulus/core/error.hpp"
#include "annulus/core/memory.hpp"
#include "annulus/kernels/device/kept_lists.hpp"
#include "annulus/kernels/host/scratch.hpp"
#include "annulus/kernels/kept_memory.hpp"

namespace annulus::kernels::host {

namespace {
constexpr const char* purpose = "kernel scratch";
}

void Scratch::free() const { ::operator delete(memory_, std::align_val_t(alignment(size_))); }

Scratch::~Scratch() { free(); }

void Scratch::start(core::Index bytes) {
  used_ = 0;
  if (bytes <= size_) return;
  release();  // first, because the two blocks together might not fit
  const auto whole = std::size_t(core::in_huge_pages(bytes));
  memory_ = static_cast<std::byte*>(::operator new(whole, std::align_val_t(alignment(bytes)), std::nothrow));
  if (!memory_) core::fail(core::ErrorKind::failure, "not enough memory for {}: {} bytes for a thread", purpose, bytes);
  core::ask_for_huge_pages(memory_, core::Index(whole));
  core::memory_ledger().add(purpose, bytes);
  size_ = bytes;
}

void Scratch::release() {
  free();
  core::memory_ledger().remove(purpose, size_);
  memory_ = nullptr;
  size_ = used_ = 0;
}

Scratch& Scratch::of_this_thread() {
  // The destructor does not use the ledger, because a pool's threads may end after the ledger is destroyed.
  thread_local Scratch scratch;
  return scratch;
}

}  // namespace annulus::kernels::host

namespace annulus::kernels {

void release_kept_memory() {
  device::release_kept_lists();
  using Space = Kokkos::DefaultHostExecutionSpace;
  Kokkos::parallel_for("annulus::release_kept_memory",
                       Kokkos::RangePolicy<Space>(0, int(Space().concurrency())).set_chunk_size(1),
                       [](const int) { host::Scratch::of_this_thread().release(); });
  Space().fence();
}

}  // namespace annulus::kernels
