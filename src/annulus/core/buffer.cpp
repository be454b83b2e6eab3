#include "annulus/core/buffer.hpp"

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <limits>
#include <mutex>
#include <optional>
#include <vector>

#include "annulus/core/error.hpp"
#include "annulus/core/free_blocks.hpp"
#include "annulus/core/gpu_driver.hpp"
#include "annulus/core/huge_pages.hpp"
#include "annulus/core/kokkos_compat.hpp"
#include "annulus/core/memory.hpp"

namespace annulus::core {
namespace {

using Space = Kokkos::DefaultExecutionSpace::memory_space;
template <class MemorySpace>
using Bytes = Kokkos::View<std::byte*, MemorySpace, Kokkos::MemoryUnmanaged>;

/// Returns nullptr if there is no memory. The caller then throws, because Kokkos' message does not name the purpose.
void* memory_of_kokkos(const std::string& label, Index bytes) {
  try {
    return Kokkos::kokkos_malloc<Space>(label, std::size_t(bytes));
  } catch (const std::exception&) {
    return nullptr;
  }
}

/// Free blocks of GPU memory, kept for reuse. On hosts the memory allocator itself keeps free blocks.
FreeBlocks& device_blocks() {
  static FreeBlocks blocks([](Index bytes) { return memory_of_kokkos("annulus::Buffer", bytes); },
                           [](void* block) { Kokkos::kokkos_free<Space>(block); });
  static const bool ends_with_kokkos = [] {
    Kokkos::push_finalize_hook([] { device_blocks().stop(); });
    return true;
  }();
  (void)ends_with_kokkos;
  return blocks;
}

/// While a BuffersStay lives, `before` is how many exceptions were uncaught when it was made. As soon as a message has
/// started, `unwinds_above` equals `before`. Otherwise each number is `none`, which is more than any number of
/// exceptions.
struct Exceptions {
  static constexpr int none = std::numeric_limits<int>::max();
  int before = none, unwinds_above = none;
};
Exceptions& exceptions() {
  thread_local Exceptions numbers;
  return numbers;
}

/// Keeps memory allocated for ever. A list refers to this memory, so that leak checkers do not report it.
void abandon(void* memory) {
  static auto* const abandoned = new std::vector<void*>;  // never destroyed
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  abandoned->push_back(memory);
}

/// Returns memory to the allocator that it came from. On a GPU, first waits for all launched kernels, as the driver's
/// own functions do. So nothing uses the memory any more when the next owner gets it.
void give_back(void* memory, Index bytes, bool of_kokkos) {
  if (!of_kokkos) return std::free(memory);
  if (device_is_host()) return Kokkos::kokkos_free<Space>(memory);
  Kokkos::fence();
  device_blocks().give(memory, bytes);
}

/// fill_zero() uses one thread for each 256 KiB, but at most host_threads() threads. To wake a thread for fewer bytes
/// would take longer than to fill the bytes.
constexpr Index zeroed_at_once = 256 * 1024;

/// Copies the bytes of `from`. If `from` is a single byte instead of a view, copies this byte to every byte of `to`. On
/// a GPU the copy waits for earlier kernels, but not for copies in other queues.
template <class To, class From>
void copy_now(const To& to, const From& from) {
  if constexpr (Kokkos::SpaceAccessibility<Kokkos::HostSpace, Space>::accessible) {
    Kokkos::deep_copy(to, from);
  } else {
    const Kokkos::DefaultExecutionSpace kernels;
    Kokkos::deep_copy(kernels, to, from);
    kernels.fence();
  }
}

}  // namespace

void release_free_blocks() {
  if (!device_is_host()) device_blocks().clear();
}

Buffer::Buffer(std::string purpose, Index bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  const bool of_kokkos = Kokkos::is_initialized();
  // Large host memory begins at the start of a huge page; the allocated bytes before that page are never touched.
  const Index whole = in_huge_pages(bytes);
  const bool huge = device_is_host() && whole >= huge_page_bytes;
  const std::size_t asked = huge ? std::size_t(whole) + std::size_t(huge_page_bytes) : std::size_t(bytes);
  void* const memory = !of_kokkos         ? std::malloc(asked)  // no kernel will use it (kokkos_compat.hpp)
                       : device_is_host() ? memory_of_kokkos(purpose, Index(asked))
                                          : device_blocks().take(bytes);
  if (memory == nullptr) {
    const std::optional<Index> free = free_gpu_memory();
    fail(ErrorKind::failure,
         "no memory for {}: {} bytes asked for, {} bytes held by this rank already{}; `annulus plan` shows what a run "
         "takes on more ranks, which have fewer rows each, and with other strategies",
         purpose, bytes, memory_ledger().current(), free ? fmt::format(", {} bytes free on its GPU", *free) : "");
  }
  data_ = memory;
  if (huge) {
    std::size_t room = asked;
    std::align(std::size_t(huge_page_bytes), std::size_t(whole), data_, room);
    ask_for_huge_pages(data_, whole);
  }
  memory_ledger().add(purpose, bytes);
  owner_ = std::shared_ptr<void>(memory, [purpose = std::move(purpose), bytes, of_kokkos](void* pointer) {
    if (std::uncaught_exceptions() > exceptions().unwinds_above) return abandon(pointer);  // the ledger still counts it
    give_back(pointer, bytes, of_kokkos);
    memory_ledger().remove(purpose, bytes);
  });
}

BuffersStay::BuffersStay() { exceptions().before = std::uncaught_exceptions(); }
BuffersStay::~BuffersStay() { exceptions() = {}; }
void BuffersStay::message_starts() { exceptions().unwinds_above = exceptions().before; }

Buffer Buffer::borrowed(void* data, Index bytes) {
  Buffer buffer;
  buffer.data_ = data;
  buffer.bytes_ = bytes;
  return buffer;
}

Buffer Buffer::first(Index bytes) const {
  require(bytes <= bytes_, [&] { return fmt::format("first {} bytes asked for, the buffer has {}", bytes, bytes_); });
  Buffer part = *this;
  part.bytes_ = bytes;
  return part;
}

void copy_to_device(void* device, const void* host, Index bytes) {
  if (bytes == 0) return;
  if (!Kokkos::is_initialized()) return void(std::memcpy(device, host, std::size_t(bytes)));
  const Bytes<Kokkos::HostSpace> from(static_cast<std::byte*>(const_cast<void*>(host)), std::size_t(bytes));
  copy_now(Bytes<Space>(static_cast<std::byte*>(device), std::size_t(bytes)), from);
}

void copy_to_host(void* host, const void* device, Index bytes) {
  if (bytes == 0) return;
  if (!Kokkos::is_initialized()) return void(std::memcpy(host, device, std::size_t(bytes)));
  const Bytes<Space> from(static_cast<std::byte*>(const_cast<void*>(device)), std::size_t(bytes));
  copy_now(Bytes<Kokkos::HostSpace>(static_cast<std::byte*>(host), std::size_t(bytes)), from);
}

bool device_is_host() {
  return !Kokkos::is_initialized() || Kokkos::SpaceAccessibility<Kokkos::HostSpace, Space>::accessible;
}

void fill_zero(void* device, Index bytes) {
  if (bytes == 0) return;
  if (!device_is_host())
    return copy_now(Bytes<Space>(static_cast<std::byte*>(device), std::size_t(bytes)), std::byte{0});
  if (!Kokkos::is_initialized()) return void(std::memset(device, 0, std::size_t(bytes)));
  // Kokkos fills a view byte by byte, which is slower. As in Kokkos' fill, the thread that fills a part is the first to
  // touch it, so that the part's pages are near this thread.
  const Index parts = std::min<Index>(host_threads(), ceil_div(bytes, zeroed_at_once));
  const auto zero = [=](const Index i) {
    const Interval part = even_part(bytes, parts, i);
    std::memset(static_cast<std::byte*>(device) + part.begin, 0, std::size_t(part.size()));
  };
  if (parts == 1) return zero(0);
  using Host = Kokkos::DefaultHostExecutionSpace;
  Kokkos::parallel_for("annulus::fill_zero", Kokkos::RangePolicy<Host>(0, parts).set_chunk_size(1), zero);
  Host().fence();
}

}  // namespace annulus::core
