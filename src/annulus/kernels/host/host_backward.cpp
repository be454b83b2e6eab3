// attend_backward() on the host: a work list's backward tasks dealt to the threads.
#include "annulus/core/error.hpp"
#include "annulus/kernels/host/backward_runner.hpp"
#include "annulus/kernels/host/host_backend.hpp"
#include "annulus/kernels/host/run_on_threads.hpp"

namespace annulus::kernels::host {

namespace {

/// What a waiting thread ends with when another one failed; nobody sees it, the first error is the one thrown.
struct Abandoned {};

template <class T>
void attend_backward_in(const WorkList& work, const core::Shape& shape, Index rows, const BackwardOperands& operands,
                        const GradientViews& gradients, const std::function<void()>& poll,
                        const BackwardFunctions<T>& functions) {
  const BackwardLayout<T> layout(functions, shape, rows);
  const Index threads = Kokkos::DefaultHostExecutionSpace().concurrency();
  const auto tasks = make_backward_tasks(work, shape.batch, layout.max_keys, functions.key_step, threads);
  BackwardRunner<T> runner(functions, layout, work, operands, gradients, tasks.size());
  const auto caller = std::this_thread::get_id();
  const auto poll_here = [&] {
    if (poll && std::this_thread::get_id() == caller) poll();
  };
  std::atomic<bool> failed{false};
  const auto wait = [&](const auto& ready) {
    while (!ready()) {
      if (failed) throw Abandoned{};
      poll_here();
      std::this_thread::yield();
    }
  };
  run_on_threads(
      "annulus::attend_backward", Index(tasks.size()), [&](Index i) { runner.run(tasks[i], wait, poll_here); }, poll,
      failed);
  if (poll) poll();
}

template <class T>
Index task_bytes(const core::Shape& shape, Index rows, const BackwardFunctions<T>& functions) {
  const BackwardLayout<T> layout(functions, shape, rows);
  return BackwardSizes<T>(functions, layout, layout.max_keys).bytes();
}

}  // namespace

void host_attend_backward(const WorkList& work, const core::Shape& shape, Index rows, core::Precision precision,
                          const BackwardOperands& operands, const GradientViews& gradients,
                          const std::function<void()>& poll, InstructionSet set) {
  core::require(shape.head_dim >= 1 && shape.head_dim <= kMaxHeadDim,
                [&] { return fmt::format("head size {} is not 1 ... {}", shape.head_dim, kMaxHeadDim); });
  if (precision == core::Precision::float64) {
    attend_backward_in(work, shape, rows, operands, gradients, poll, backward_of<double>(set));
  } else {
    attend_backward_in(work, shape, rows, operands, gradients, poll, backward_of<float>(set));
  }
}

Index host_attend_backward_bytes(const core::Shape& shape, Index rows, core::Precision precision, InstructionSet set) {
  const Index one = precision == core::Precision::float64 ? task_bytes(shape, rows, backward_of<double>(set))
                                                          : task_bytes(shape, rows, backward_of<float>(set));
  return one * Kokkos::DefaultHostExecutionSpace().concurrency();
}

}  // namespace annulus::kernels::host
