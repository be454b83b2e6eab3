// Predicts memory and work of a layer's passes before anything is computed.
#pragma once

#include "annulus/layer/layer.hpp"

namespace annulus::layer {

/// Peak bytes of one rank, as the memory ledger counts them. This is an upper bound; it is at most a few per cent too
/// high once matrices are much larger than a chunk of rows.
struct MemoryPrediction {
  Index weights = 0;   ///< what this rank keeps from start to end
  Index forward = 0;   ///< peak of the forward pass, including weights and x
  Index backward = 0;  ///< peak of the backward pass, with weights, their gradients, x, dy and what forward() saved
  Index training = 0;  ///< peak of both passes, with the target in memory, too; the backward pass makes no dx
};

/// `partition` is what partition_of() returns for any number of ranks; `strategy` is the one given to the layer.
MemoryPrediction predict_memory(const LayerProblem& layer, const strategies::Strategy& strategy,
                                const pattern::Partition& partition, int rank);

/// What the attention alone costs one rank. With sharding `tensor` this is the attention of its heads over all rows,
/// without messages. LayerMetrics counts the messages of the layer itself.
strategies::Prediction predict_attention(const LayerProblem& layer, const strategies::Strategy& strategy,
                                         const pattern::Partition& partition, int rank, bool backward);
/// Bytes that `rank` receives from each rank in that attention.
std::vector<Index> attention_bytes_from(const LayerProblem& layer, const strategies::Strategy& strategy,
                                        const pattern::Partition& partition, int rank, bool backward);

}  // namespace annulus::layer
