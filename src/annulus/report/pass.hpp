// Work in which ranks wait for each other's messages, timed and guarded.
#pragma once

#include <functional>
#include <string>

#include "annulus/comm/communicator.hpp"
#include "annulus/core/layer_metrics.hpp"

namespace annulus::report {

using core::Index;

/// One pass as this rank saw it.
struct Pass {
  core::LayerMetrics metrics;  ///< of attention alone where there is no layer round it
  double seconds = 0;          ///< wall time from one barrier to the next
  Index peak_bytes = 0;
};

/// Runs `work`, known to the watchdog as `name`, between two barriers; collective. A rank that fails alone in the
/// middle cannot tell the others, who may be waiting for its messages: it ends the job. An AgreedError, of which all
/// ranks know, is thrown on.
Pass run_pass(const comm::Communicator& comm, const std::string& name, const std::function<core::LayerMetrics()>& work);

}  // namespace annulus::report
