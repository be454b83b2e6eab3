// Measurements of a layer's passes: its attention, its matrix products and its messages.
#pragma once

#include "annulus/core/metrics.hpp"

namespace annulus::core {

/// Measurements of one rank in one pass. In a run without a layer only `attention` is set.
struct LayerMetrics {
  RankMetrics attention;       ///< measurements of the attention alone
  double product_seconds = 0;  ///< wall time in matrix products
  double product_flops = 0;
  double wait_seconds = 0;  ///< wall time waiting for weights, gradients and rows; not for the attention's messages
  Index bytes_sent = 0;     ///< bytes of weights, gradients and rows; not of the attention's messages
  Index bytes_received = 0;
};

}  // namespace annulus::core
