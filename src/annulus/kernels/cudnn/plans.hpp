// cuDNN as an engine: one plan for each shape, chosen by cuDNN's heuristics and kept. The library is loaded when it is
// first needed, so that the program also starts without it.
#pragma once

#include <memory>
#include <string>

#include "annulus/kernels/cudnn/engine.hpp"

namespace annulus::kernels::cudnn {

/// Whether this build can use cuDNN.
bool is_built();

/// Why this process has no cuDNN: the build has none, or the library was not found. Empty if it has cuDNN.
std::string why_no_cudnn();

/// "9.19.0". Empty if there is no cuDNN.
std::string cudnn_version();

/// Plans for the GPU of this process, which run on a CUDA stream. Throws Error(usage) with why_no_cudnn(), and
/// Error(failure) if cuDNN cannot be started.
std::unique_ptr<Engine> make_engine(void* stream);

/// A GPU that this machine need not have.
struct DescribedGpu {
  std::string json;  ///< cuDNN's description, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION
  int compute_capability = 90;
  int multiprocessors = 132;
};
/// Plans for such a GPU: prepare() says whether cuDNN has kernels for a shape; forward() and backward() throw.
std::unique_ptr<Engine> make_planner(const DescribedGpu& gpu);

}  // namespace annulus::kernels::cudnn
