// Tasks dealt to the threads, in their order.
#pragma once

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "annulus/core/types.hpp"

namespace annulus::kernels::host {

/// Lets every thread take the next task, run_task(i), until none is left; task i is started after tasks 0 ... i - 1
/// were. The calling thread polls when it is done before the others, until they are (in its own tasks run_task does).
/// Exceptions do not leave a parallel region by themselves: the first one is kept, no task is started any more,
/// `failed` becomes true, and the calling thread throws it again.
template <class RunTask>
void run_on_threads(const char* label, core::Index tasks, const RunTask& run_task, const std::function<void()>& poll,
                    std::atomic<bool>& failed) {
  using Space = Kokkos::DefaultHostExecutionSpace;
  std::atomic<core::Index> next{0};
  std::atomic<int> working{0};
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
  const auto worker = [&](const int) {
    ++working;
    guarded([&] {
      for (core::Index i = next++; i < tasks; i = next++) run_task(i);
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
  const int threads = int(std::min<core::Index>(Space().concurrency(), tasks));
  Kokkos::parallel_for(label, Kokkos::RangePolicy<Space>(0, threads).set_chunk_size(1), worker);
  Space().fence();
  if (error) std::rethrow_exception(error);
}

}  // namespace annulus::kernels::host
