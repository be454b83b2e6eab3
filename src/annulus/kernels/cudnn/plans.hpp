// cuDNN as an engine: one plan for each shape, found by its heuristics and kept. The library is looked up when it is
// first needed: the program also starts where it is missing.
#pragma once

#include <memory>
#include <string>

#include "annulus/kernels/cudnn/engine.hpp"

namespace annulus::kernels::cudnn {

/// Whether this build can use it.
bool is_built();

/// Why this process has no cuDNN: the build, or the library that was not found; empty where it has.
std::string why_no_cudnn();

/// "9.19.0". Empty where there is none.
std::string cudnn_version();

/// Plans for the GPU of this process, which run on a CUDA stream. Throws Error(usage) with why_no_cudnn(), and
/// Error(failure) where cuDNN cannot be started.
std::unique_ptr<Engine> make_engine(void* stream);

/// A GPU that is not there.
struct DescribedGpu {
  std::string json;  ///< in cuDNN's own words, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION
  int compute_capability = 90;
  int multiprocessors = 132;
};
/// Plans for it: prepare() says whether cuDNN has kernels for a shape, forward() and backward() fail.
std::unique_ptr<Engine> make_planner(const DescribedGpu& gpu);

}  // namespace annulus::kernels::cudnn
