// cuDNN as an engine: it has one plan for each shape, chosen by cuDNN's heuristics and kept. The library is loaded when
// it is first needed, so that the program also starts without it.
#pragma once

#include <memory>
#include <string>

#include "annulus/kernels/cudnn/engine.hpp"

namespace annulus::kernels::cudnn {

/// True if this build can use cuDNN.
bool is_built();

/// Returns why this process has no cuDNN: the build is without it, or the library cannot be loaded; otherwise empty.
std::string why_no_cudnn();

/// The version of cuDNN, for example "9.19.0"; empty if there is no cuDNN.
std::string cudnn_version();

/// An engine for the GPU of this process, which computes on a CUDA stream. Throws Error(usage) with the text of
/// why_no_cudnn() if that is not empty, and Error(failure) if cuDNN cannot be started.
std::unique_ptr<Engine> make_engine(void* stream);

/// Describes a GPU that this machine need not have. The default numbers are an H100 SXM's.
struct DescribedGpu {
  std::string json;  ///< cuDNN's description, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION
  int compute_capability = 90;
  int multiprocessors = 132;
};
/// An engine for such a GPU: prepare() says whether cuDNN has kernels for a shape; forward() and backward() throw.
std::unique_ptr<Engine> make_planner(const DescribedGpu& gpu);

}  // namespace annulus::kernels::cudnn
