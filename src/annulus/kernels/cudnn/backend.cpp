// The back end that tries cuDNN first. The device back end computes what cuDNN cannot compute.
#include <Kokkos_Core.hpp>
#include <memory>

#include "annulus/kernels/backend.hpp"
#include "annulus/kernels/cudnn/attend.hpp"
#include "annulus/kernels/cudnn/plans.hpp"

namespace annulus::kernels {
namespace {

std::unique_ptr<cudnn::Engine>& engine_of_process() {
  static std::unique_ptr<cudnn::Engine> one = [] {
    Kokkos::push_finalize_hook([] { engine_of_process().reset(); });
    return std::unique_ptr<cudnn::Engine>();
  }();
  return one;
}

cudnn::Engine& engine() {
  std::unique_ptr<cudnn::Engine>& one = engine_of_process();
  if (one == nullptr) {
#if defined(KOKKOS_ENABLE_CUDA)
    one = cudnn::make_engine(Kokkos::Cuda().cuda_stream());
#else
    one = cudnn::make_engine(nullptr);  // throws: this build has no cuDNN
#endif
  }
  return *one;
}

void attend_by_cudnn(const core::WorkList& work, const Operands& operands, State& state,
                     const std::function<void()>& poll) {
  cudnn::attend(engine(), work, operands, state, poll);
}

void backward_by_cudnn(const core::WorkList& work, const core::Shape& shape, core::Index rows,
                       core::Precision precision, const BackwardOperands& operands, const GradientViews& gradients,
                       const std::function<void()>& poll) {
  cudnn::attend_backward(engine(), work, shape, rows, precision, operands, gradients, poll);
}

}  // namespace

const BackendFunctions& cudnn_backend() {
  static const BackendFunctions functions = [] {
    BackendFunctions all = device_backend;
    all.attend = attend_by_cudnn;
    all.attend_bytes = [](const core::Shape& shape, core::Index rows, core::Precision) {
      return cudnn::attend_bytes(shape, rows);
    };
    all.attend_backward = backward_by_cudnn;
    all.attend_backward_bytes = [](const core::Shape& shape, core::Index rows, core::Precision, bool) {
      return cudnn::attend_backward_bytes(shape, rows);
    };
    return all;
  }();
  return functions;
}

LibraryBackend cudnn_description() {
  const auto version = [] {
    const std::string reason = cudnn::why_no_cudnn();
    return reason.empty() ? cudnn::cudnn_version() : "none: " + reason;
  };
  return {core::Backend::cudnn, /*takes_heads_together=*/true, version,
          cudnn::refusal,       cudnn::computed_pairs,         cudnn::describe_pairs};
}

}  // namespace annulus::kernels
