// attend() on the host: a work list's tasks dealt to the threads.
#include <Kokkos_Core.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <thread>

#include "annulus/core/error.hpp"
#include "annulus/kernels/host/host_backend.hpp"
#include "annulus/kernels/host/task_runner.hpp"

namespace annulus::kernels::host {

namespace {

/// Lets every thread take the next task until none is left. The calling thread polls after every tile of its own tasks
/// (run_task does) and, when it is done before the others, goes on polling until they are.
/// Exceptions do not leave a parallel region by themselves: the first one is kept, the threads stop, and the calling
/// thread throws it again.
template <class RunTask, class Poll>
void run_on_all_threads(Index tasks, const RunTask& run_task, const Poll& poll) {
  using Space = Kokkos::DefaultHostExecutionSpace;
  std::atomic<Index> next{0};
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
    }
  };
  const auto caller = std::this_thread::get_id();
  const auto worker = [&](const int) {
    ++working;
    guarded([&] {
      for (Index i = next++; i < tasks; i = next++) run_task(i);
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
  const int threads = int(std::min<Index>(Space().concurrency(), tasks));
  Kokkos::parallel_for("annulus::attend", Kokkos::RangePolicy<Space>(0, threads).set_chunk_size(1), worker);
  Space().fence();
  if (error) std::rethrow_exception(error);
}

template <class T>
void attend_in(const WorkList& work, const Operands& operands, State& state, const std::function<void()>& poll,
               const TileFunctions<T>& tiles) {
  TaskRunner<T> runner(tiles, work, operands, state);
  const Index threads = Kokkos::DefaultHostExecutionSpace().concurrency();
  const auto tasks = make_tasks(work, state.shape.batch, runner.layout().max_rows, threads);
  const auto caller = std::this_thread::get_id();
  const auto poll_after_tile = [&] {
    if (poll && std::this_thread::get_id() == caller) poll();
  };
  run_on_all_threads(
      Index(tasks.size()), [&](Index i) { runner.run(tasks[i], poll_after_tile); }, poll);
  if (poll) poll();
}

}  // namespace

void host_attend(const WorkList& work, const Operands& operands, State& state, const std::function<void()>& poll,
                 InstructionSet set) {
  const Index d = state.shape.head_dim;
  core::require(d >= 1 && d <= kMaxHeadDim,
                [&] { return fmt::format("head size {} is not 1 ... {}", d, kMaxHeadDim); });
  if (state.precision == core::Precision::float64) {
    attend_in(work, operands, state, poll, tiles_of<double>(set));
  } else {
    attend_in(work, operands, state, poll, tiles_of<float>(set));
  }
}

namespace {

template <class T>
Index task_bytes(const core::Shape& shape, Index rows, const TileFunctions<T>& tiles) {
  const Layout<T> layout(tiles, shape.head_dim);
  const Index most = std::max(layout.max_rows, shape.group());  // a task has at least one query row with all its heads
  return Sizes<T>(tiles, layout, std::min(most, rows * shape.group())).bytes();
}

}  // namespace

Index host_attend_bytes(const core::Shape& shape, Index rows, core::Precision precision, InstructionSet set) {
  if (rows == 0) return 0;
  const Index one = precision == core::Precision::float64 ? task_bytes(shape, rows, tiles_of<double>(set))
                                                          : task_bytes(shape, rows, tiles_of<float>(set));
  return one * Kokkos::DefaultHostExecutionSpace().concurrency();
}

}  // namespace annulus::kernels::host
