// Work in which ranks wait for each other's messages, timed and guarded.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "annulus/app/job/ranges.hpp"
#include "annulus/comm/communicator.hpp"
#include "annulus/core/metrics.hpp"
#include "annulus/strategies/strategy.hpp"

namespace annulus::app {

using core::Index;

/// What a pass of the attention layer did beside the attention.
struct LayerWork {
  double product_seconds = 0;  ///< wall time in matrix products
  double product_flops = 0;
  double wait_seconds = 0;  ///< for weights, gradients and rows; the attention's messages excluded
  Index bytes_sent = 0;     ///< of weights, gradients and rows
  Index bytes_received = 0;
};

/// One pass as this rank saw it.
struct Pass {
  core::RankMetrics metrics;  ///< of the attention
  double seconds = 0;         ///< wall time from one barrier to the next
  Index peak_bytes = 0;
  std::optional<Index> predicted_bytes;
  std::optional<LayerWork> layer;
};

/// A whole run as this rank saw it.
struct Passes {
  Pass forward;
  std::optional<Pass> backward;
  double read_seconds = 0;
  double write_seconds = 0;
  std::optional<LseFindings> lse;  ///< of all ranks
};

/// Runs `work`, known to the watchdog as `name`, between two barriers; collective. A rank that fails in the middle
/// cannot tell the others, who may be waiting for its messages: it ends the job.
Pass run_pass(const comm::Communicator& comm, const std::string& name,
              const std::function<void(Pass&, const strategies::Progress&)>& work);

/// Sums the wall time of several pieces of work.
struct Stopwatch {
  double seconds = 0;

  template <class Work>
  auto time(Work&& work) {
    struct Stop {
      double& sum;
      double start = core::wall_seconds();
      ~Stop() { sum += core::wall_seconds() - start; }
    } stop{seconds};
    return work();
  }
};

}  // namespace annulus::app
