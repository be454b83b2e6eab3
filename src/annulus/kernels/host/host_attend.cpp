// attend() on the host: a work list's tasks dealt to the threads.
#include <algorithm>

#include "annulus/core/error.hpp"
#include "annulus/kernels/host/host_backend.hpp"
#include "annulus/kernels/host/run_on_threads.hpp"
#include "annulus/kernels/host/task_runner.hpp"

namespace annulus::kernels::host {

namespace {

template <class T>
void attend_in(const WorkList& work, const Operands& operands, State& state, const std::function<void()>& poll,
               const TileFunctions<T>& tiles, const TileSizes& sizes) {
  TaskRunner<T> runner(tiles, work, operands, state, sizes);
  const Index threads = Kokkos::DefaultHostExecutionSpace().concurrency();
  const auto tasks = make_tasks(work, state.shape.batch, runner.layout().max_rows, threads);
  const auto caller = std::this_thread::get_id();
  const auto poll_after_tile = [&] {
    if (poll && std::this_thread::get_id() == caller) poll();
  };
  std::atomic<bool> failed{false};  // tasks wait for nobody, so nobody asks
  run_on_threads(
      "annulus::attend", Index(tasks.size()), [&](Index i) { runner.run(tasks[i], poll_after_tile); }, poll, failed);
  if (poll) poll();
}

}  // namespace

void host_attend(const WorkList& work, const Operands& operands, State& state, const std::function<void()>& poll,
                 InstructionSet set, const TileSizes& sizes) {
  const Index d = state.shape.head_dim;
  core::require(d >= 1 && d <= kMaxHeadDim,
                [&] { return fmt::format("head size {} is not 1 ... {}", d, kMaxHeadDim); });
  if (state.precision == core::Precision::float64) {
    attend_in(work, operands, state, poll, tiles_of<double>(set), sizes);
  } else {
    attend_in(work, operands, state, poll, tiles_of<float>(set), sizes);
  }
}

namespace {

template <class T>
Index task_bytes(const core::Shape& shape, Index rows, const TileFunctions<T>& tiles) {
  const Layout<T> layout(tiles, shape.head_dim, {});
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
