#include "annulus/comm/staging.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <Kokkos_Core.hpp>
#include <exception>
#include <utility>
#include <vector>

#include "annulus/comm/host_pool.hpp"
#include "annulus/comm/transport.hpp"
#include "annulus/core/buffer.hpp"
#include "annulus/core/gpu_driver.hpp"
#include "annulus/core/print.hpp"

namespace annulus::comm {
namespace {

/// rows_of() returns the selected rows of every part as lines; packed() returns the same lines in a contiguous copy.
core::Lines rows_of(const RowBlock& block) {
  return {block.first_row(), block.rows.size() * block.row_bytes, block.parts, block.held * block.row_bytes};
}
core::Lines packed(const RowBlock& block, std::byte* copy) {
  const Index width = block.rows.size() * block.row_bytes;
  return {copy, width, block.parts, width};
}

StagingQueues& forced() {
  static StagingQueues queues;
  return queues;
}

/// Queues that copy from and to device memory; they are destroyed before Kokkos ends.
StagingQueues own_queues() {
  static std::unique_ptr<core::CopyQueue> to_host, to_device;
  if (!to_host) {
    to_host = core::make_copy_queue();
    to_device = core::make_copy_queue();
    Kokkos::push_finalize_hook([] {
      release_all_host_memory();
      to_host.reset();
      to_device.reset();
    });
  }
  return {to_host.get(), to_device.get()};
}

/// How messages of this process travel; the initial value holds until choose_transfers() is called.
struct Choice {
  bool straight;
  std::string words;
};
Choice& choice() {
  static Choice one = [] {
    if (!core::why_no_gpu().empty()) {
      return Choice{true, "none: this build computes on a GPU, but finds none here (" + core::why_no_gpu() + ")"};
    }
    return core::device_is_host() ? Choice{true, "host memory, straight to MPI"}
                                  : Choice{false, "device memory staged through host memory"};
  }();
  return one;
}

}  // namespace

void choose_transfers(GpuAware wanted, const Communicator& comm, const std::function<std::string()>& trial) {
  if (core::device_is_host()) return;
  const std::string straight = "device memory, straight to MPI", staged = "device memory staged through host memory";
  if (wanted == GpuAware::off) {
    choice() = {false, staged + " (distribution.gpu_aware: off)"};
    return;
  }
  const std::string setting = wanted == GpuAware::on ? "distribution.gpu_aware: on" : "distribution.gpu_aware: auto";
  const std::string trouble = comm.broadcast(comm.is_root() ? trial() : std::string());
  if (trouble.empty()) {
    choice() = {true, fmt::format("{} ({}, a trial send of device memory arrived)", straight, setting)};
    return;
  }
  const std::string reason = fmt::format("({}, a trial send of device memory {})", setting, trouble);
  choice() = wanted == GpuAware::on ? Choice{true, straight + " " + reason} : Choice{false, staged + " " + reason};
  if (wanted == GpuAware::on && comm.is_root() && comm.size() > 1)
    core::print_to_stderr(
        "annulus: warning: distribution.gpu_aware is on, but a trial send of device memory {}: if the first "
        "message ends this run, too, set it to auto or off\n",
        trouble);
}

std::string transfers() {
  if (const std::string nccl = nccl_in_use(); !nccl.empty()) {
    return fmt::format("device memory, by {} (distribution.transport: nccl); windows: {}", nccl, choice().words);
  }
  return choice().words;
}

int send_device_memory_to_self() {
  constexpr Index bytes = 1 << 20;  // enough that no library treats the message as a small one
  const core::Buffer from("self-send", bytes), to("self-send", bytes);
  std::vector<unsigned char> sent(bytes), arrived(bytes, 0);
  for (Index i = 0; i < bytes; ++i) sent[std::size_t(i)] = static_cast<unsigned char>(i * 7 + i / 251);
  core::copy_to_device(from.data(), sent.data(), bytes);
  core::fill_zero(to.data(), bytes);
  if (blocking("MPI_Sendrecv", MPI_Sendrecv, from.data(), int(bytes), MPI_BYTE, 0, 0, to.data(), int(bytes), MPI_BYTE,
               0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
    return 1;
  }
  core::copy_to_host(arrived.data(), to.data(), bytes);
  return arrived == sent ? 0 : 1;
}

void stage_by(const StagingQueues& queues) {
  release_all_host_memory();  // kept memory refers to the old queues
  forced() = queues;
}

Staged::Staged(const RowBlock& block)
    : origin_(block), visible_(block), queues_(forced()), exceptions_(std::uncaught_exceptions()) {
  const bool is_forced = queues_.to_host != nullptr;
  if ((choice().straight && !is_forced) || block.bytes() == 0) return;
  if (!is_forced) queues_ = own_queues();
  memory_ = take_host_memory(block.bytes());
  visible_ = {memory_.data(), block.parts, block.rows.size(), block.row_bytes, {0, block.rows.size()}};
  kernels_before_ = queues_.to_host->kernels_so_far();
}

Staged::~Staged() {
  if (!is_staged()) return;
  if (std::uncaught_exceptions() > exceptions_) {
    abandon_host_memory(std::move(memory_));
  } else if (stored_) {
    keep_host_memory(std::move(memory_), *queues_.to_device, std::move(stored_));
  } else {
    keep_host_memory(std::move(memory_), *queues_.to_host, std::move(loaded_));
  }
}

void Staged::load() {
  if (!is_staged()) return;
  queues_.to_host->wait_for(kernels_before_);
  queues_.to_host->copy(rows_of(origin_), packed(origin_, memory_.data()));
  loaded_ = queues_.to_host->so_far();
}

bool Staged::is_loaded() { return !is_staged() || queues_.to_host->is_over(loaded_); }

void Staged::wait_until_loaded() {
  while (!is_loaded()) sched_yield();
}

void Staged::store() {
  if (!is_staged()) return;
  queues_.to_device->wait_for(kernels_before_);
  queues_.to_device->copy(packed(origin_, memory_.data()), rows_of(origin_));
  stored_ = queues_.to_device->so_far();
}

void Staged::arrive() {
  if (is_staged()) queues_.to_device->kernels_wait_for(stored_);
}

}  // namespace annulus::comm
