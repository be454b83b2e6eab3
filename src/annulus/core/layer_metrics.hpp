// What the passes of an attention layer measured: the attention, and the matrix products and messages around it.
#pragma once

#include "annulus/core/metrics.hpp"

namespace annulus::core {

/// What one pass cost one rank. In a run without a layer only `attention` is set.
struct LayerMetrics {
  RankMetrics attention;       ///< of the attention alone
  double product_seconds = 0;  ///< wall time in matrix products
  double product_flops = 0;
  double wait_seconds = 0;  ///< wall time waiting for weights, gradients and rows, the attention's messages excluded
  Index bytes_sent = 0;     ///< of weights, gradients and rows, the attention's messages excluded
  Index bytes_received = 0;
};

}  // namespace annulus::core
