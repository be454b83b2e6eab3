#include "annulus/core/copy_queue.hpp"

#include <algorithm>
#include <cstring>

#include "annulus/core/buffer.hpp"
#include "annulus/core/error.hpp"
#include "annulus/core/gpu_names.hpp"
#include "annulus/core/kokkos_compat.hpp"

namespace annulus::core {
namespace {

class HostQueue final : public CopyQueue {
 public:
  When kernels_so_far() override { return nullptr; }
  void wait_for(const When&) override {}
  void copy(const Lines& from, const Lines& to) override {
    for (Index line = 0; line < from.count; ++line) {
      std::memcpy(static_cast<std::byte*>(to.data) + line * to.pitch,
                  static_cast<const std::byte*>(from.data) + line * from.pitch, std::size_t(from.width));
    }
  }
  When so_far() override { return nullptr; }
  bool is_over(const When&) override { return true; }
  void kernels_wait_for(const When&) override {}
};

#if defined(GPU)

void check(GPU(Error_t) code, const char* call) {
  if (code != GPU(Success)) fail(ErrorKind::failure, "{}: {}", call, GPU(GetErrorString)(code));
}

GPU(Stream_t) stream_of_kernels() {
#if defined(KOKKOS_ENABLE_CUDA)
  return Kokkos::DefaultExecutionSpace().cuda_stream();
#else
  return Kokkos::DefaultExecutionSpace().hip_stream();
#endif
}

struct Event final : Moment {
  explicit Event(GPU(Stream_t) stream) {
    check(GPU(EventCreateWithFlags)(&event, GPU(EventDisableTiming)), "EventCreate");
    check(GPU(EventRecord)(event, stream), "EventRecord");
  }
  ~Event() override { static_cast<void>(GPU(EventDestroy)(event)); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  GPU(Event_t) event{};
};

GPU(Event_t) event_of(const When& moment) { return static_cast<const Event&>(*moment).event; }

class GpuQueue final : public CopyQueue {
 public:
  GpuQueue() {
    // "Non-blocking": this stream and the default stream do not wait for each other. This stream has the greatest
    // priority, because otherwise the few thread blocks of an NCCL kernel would wait for all thread blocks of an
    // attention kernel.
    int least = 0, greatest = 0;
    check(GPU(DeviceGetStreamPriorityRange)(&least, &greatest), "DeviceGetStreamPriorityRange");
    check(GPU(StreamCreateWithPriority)(&stream_, GPU(StreamNonBlocking), greatest), "StreamCreateWithPriority");
  }
  ~GpuQueue() override { static_cast<void>(GPU(StreamDestroy)(stream_)); }

  When kernels_so_far() override { return std::make_shared<Event>(stream_of_kernels()); }
  void wait_for(const When& moment) override {
    if (moment) check(GPU(StreamWaitEvent)(stream_, event_of(moment), 0), "StreamWaitEvent");
  }
  void copy(const Lines& from, const Lines& to) override {
    constexpr Index most_pitch = 2147483647;  // bytes, the limit of one call of Memcpy2DAsync
    const bool is_one = from.count == 1 || (from.pitch == from.width && to.pitch == to.width);
    if (is_one || std::max(from.pitch, to.pitch) <= most_pitch) {
      const Index count = is_one ? 1 : from.count, width = is_one ? from.width * from.count : from.width;
      copy_lines({from.data, width, count, from.pitch}, {to.data, width, count, to.pitch});
      return;
    }
    for (Index line = 0; line < from.count; ++line) {
      copy_lines({static_cast<std::byte*>(from.data) + line * from.pitch, from.width},
                 {static_cast<std::byte*>(to.data) + line * to.pitch, to.width});
    }
  }
  When so_far() override { return std::make_shared<Event>(stream_); }
  bool is_over(const When& moment) override {
    if (!moment) return true;
    const auto code = GPU(EventQuery)(event_of(moment));
    if (code != GPU(ErrorNotReady)) check(code, "EventQuery");
    return code == GPU(Success);
  }
  void kernels_wait_for(const When& moment) override {
    if (moment) check(GPU(StreamWaitEvent)(stream_of_kernels(), event_of(moment), 0), "StreamWaitEvent");
  }
  void* stream() override { return stream_; }

 private:
  void copy_lines(const Lines& from, const Lines& to) {
    if (from.count == 1) {
      check(GPU(MemcpyAsync)(to.data, from.data, std::size_t(from.width), GPU(MemcpyDefault), stream_), "MemcpyAsync");
      return;
    }
    check(GPU(Memcpy2DAsync)(to.data, std::size_t(to.pitch), from.data, std::size_t(from.pitch),
                             std::size_t(from.width), std::size_t(from.count), GPU(MemcpyDefault), stream_),
          "Memcpy2DAsync");
  }
  GPU(Stream_t) stream_{};
};

#endif

}  // namespace

std::unique_ptr<CopyQueue> make_copy_queue() {
  if (device_is_host()) return std::make_unique<HostQueue>();
#if defined(GPU)
  return std::make_unique<GpuQueue>();
#else
  fail(ErrorKind::failure, "copies while kernels run need CUDA or HIP, and this build is made for {}",
       kokkos_backends());
#endif
}

HostMemory::HostMemory(Index bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  void* data = nullptr;
  try {
    data = Kokkos::kokkos_malloc<PinnedSpace>("host memory of messages", std::size_t(bytes));
  } catch (const std::exception&) {  // our message below is shorter than Kokkos'
  }
  if (data == nullptr) fail(ErrorKind::failure, "no host memory for messages: {} bytes asked", bytes);
  owner_ = std::shared_ptr<void>(data, [](void* pointer) { Kokkos::kokkos_free<PinnedSpace>(pointer); });
}

}  // namespace annulus::core
