// Memory and work of a layer's passes, known before anything is computed.
#pragma once

#include "annulus/layer/layer.hpp"

namespace annulus::layer {

/// Peak bytes of one rank, as the memory ledger counts them: an upper bound that is met to some percent once matrices
/// are large against a chunk of rows.
struct MemoryPrediction {
  Index weights = 0;   ///< kept by this rank, all the time
  Index forward = 0;   ///< weights and x included
  Index backward = 0;  ///< weights, their gradients, x, dy and what forward() saved included
  Index training = 0;  ///< both passes, the backward pass without dx, with the target beside them
};

/// `partition` is partition_of() these ranks, whose number may be any; `strategy` as given to the layer.
MemoryPrediction predict_memory(const LayerProblem& layer, const strategies::Strategy& strategy,
                                const pattern::Partition& partition, int rank);

/// What the attention alone costs one rank: with `tensor` its heads, of all rows and without messages. For the messages
/// of the layer itself see LayerMetrics.
strategies::Prediction predict_attention(const LayerProblem& layer, const strategies::Strategy& strategy,
                                         const pattern::Partition& partition, int rank, bool backward);
/// Bytes that a rank receives from each rank in that attention.
std::vector<Index> attention_bytes_from(const LayerProblem& layer, const strategies::Strategy& strategy,
                                        const pattern::Partition& partition, int rank, bool backward);

}  // namespace annulus::layer
