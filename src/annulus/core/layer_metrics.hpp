// Measurements of an attention layer's passes: of the attention, and of the matrix products and messages around it.
#pragma once

#include "annulus/core/metrics.hpp"

namespace annulus::core {

/// Measurements of one rank in one pass. In a run without a layer only `attention` is set.
struct LayerMetrics {
  RankMetrics attention;       ///< of the attention alone
  double product_seconds = 0;  ///< wall time in matrix products
  double product_flops = 0;
  double wait_seconds = 0;  ///< wall time waiting for weights, gradients and rows, the attention's messages excluded
  Index bytes_sent = 0;     ///< of weights, gradients and rows, the attention's messages excluded
  Index bytes_received = 0;
};

}  // namespace annulus::core
