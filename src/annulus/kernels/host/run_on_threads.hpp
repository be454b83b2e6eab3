// Runs tasks on threads. Tasks start in ascending order.
#pragma once

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "annulus/core/kokkos_compat.hpp"
#include "annulus/core/types.hpp"

namespace annulus::kernels::host {

/// A waiting task ends with this exception if another task failed. No caller sees it, because the first error is
/// thrown instead.
struct Abandoned {};

/// Every thread takes the next task i and calls run_task(i, poll_here, wait), until no task is left. Task i starts
/// after tasks 0 ... i - 1 have started.
///   poll_here()   polls on the thread that called run_on_threads(), and does nothing on other threads; the calling
///                 thread also polls while it waits for the other threads to finish, and at the end
///   wait(ready)   returns when ready() is true, for tasks that wait for others
/// An exception cannot leave a parallel region by itself. So after the first exception no task is started any more,
/// waiting tasks end, and the calling thread throws the first exception again.
template <class RunTask>
void run_on_threads(const char* label, core::Index tasks, const std::function<void()>& poll, const RunTask& run_task) {
  using Space = Kokkos::DefaultHostExecutionSpace;
  std::atomic<core::Index> next{0};
  std::atomic<int> working{0};
  std::atomic<bool> failed{false};
  std::exception_ptr error;
  std::mutex error_mutex;
  const auto guarded = [&](const auto& work) {
    try {
      work();
    } catch (...) {
      const std::lock_guard<std::mutex> lock(error_mutex);
      if (!error) error = std::current_exception();
      next = tasks;
      failed = true;
    }
  };
  const auto caller = std::this_thread::get_id();
  const auto poll_here = [&] {
    if (poll && std::this_thread::get_id() == caller) poll();
  };
  const auto wait = [&](const auto& ready) {
    while (!ready()) {
      if (failed) throw Abandoned{};
      poll_here();
      std::this_thread::yield();
    }
  };
  const auto worker = [&](const int) {
    ++working;
    guarded([&] {
      for (core::Index i = next++; i < tasks; i = next++) run_task(i, poll_here, wait);
    });
    --working;
    if (!poll || std::this_thread::get_id() != caller) return;
    guarded([&] {
      while (working > 0) {
        poll();
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
    });
  };
  const int threads = int(std::min<core::Index>(core::host_threads(), tasks));
  Kokkos::parallel_for(label, Kokkos::RangePolicy<Space>(0, threads).set_chunk_size(1), worker);
  Space().fence();
  if (error) std::rethrow_exception(error);
  if (poll) poll();
}

}  // namespace annulus::kernels::host
