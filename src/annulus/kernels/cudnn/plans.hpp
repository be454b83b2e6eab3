// cuDNN as an engine. It keeps one plan for each shape, which cuDNN's heuristics choose. The library is loaded when it
// is first needed, so that the program also starts on machines without the library.
#pragma once

#include <memory>
#include <string>

#include "annulus/kernels/cudnn/engine.hpp"

namespace annulus::kernels::cudnn {

/// True if the build has the code that calls cuDNN.
bool is_built();

/// Returns why this process has no cuDNN: the build is without cuDNN, or the library cannot be loaded. Otherwise empty.
std::string why_no_cudnn();

/// Returns the version of cuDNN, for example "9.19.0"; empty if there is no cuDNN.
std::string cudnn_version();

/// Returns an engine that computes on this process's GPU, on a CUDA stream. Throws Error(usage) with the text of
/// why_no_cudnn() if this text is not empty, and Error(failure) if cuDNN cannot be started.
std::unique_ptr<Engine> make_engine(void* stream);

/// Describes a GPU that this machine need not have. The default numbers are an H100 SXM's.
struct DescribedGpu {
  std::string json;  ///< cuDNN's description, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION
  int compute_capability = 90;
  int multiprocessors = 132;
};
/// Returns an engine for such a GPU. Its prepare() says whether cuDNN has kernels for a shape. Its forward() and
/// backward() throw Error. Throws Error(usage) with the text of why_no_cudnn() if this text is not empty.
std::unique_ptr<Engine> make_planner(const DescribedGpu& gpu);

}  // namespace annulus::kernels::cudnn
