// Predicts memory and work of a layer's passes before anything is computed.
#pragma once

#include "annulus/layer/layer.hpp"

namespace annulus::layer {

/// Predicted peak bytes of one rank, as the memory ledger counts them. They are upper bounds. If matrices are much
/// larger than a chunk of rows (Products::chunk_rows), these bounds are at most a few per cent too high.
struct MemoryPrediction {
  Index weights = 0;   ///< the weights that this rank keeps from start to end
  Index forward = 0;   ///< peak of the forward pass, including weights and x
  Index backward = 0;  ///< peak of the backward pass, with weights, their gradients, x, dy and what forward() saved
  Index training = 0;  ///< peak of both passes if the target is in memory, too, and the backward pass makes no dx
};

/// `partition`: the result of partition_of() for any number of ranks. `strategy`: the one given to the layer.
MemoryPrediction predict_memory(const LayerProblem& layer, const strategies::Strategy& strategy,
                                const pattern::Partition& partition, int rank);

/// Predicts what the attention alone costs one rank. With sharding `tensor` this is the attention of the rank's heads
/// over all rows, without messages. The messages of the layer itself are not predicted, only measured (LayerMetrics).
strategies::Prediction predict_attention(const LayerProblem& layer, const strategies::Strategy& strategy,
                                         const pattern::Partition& partition, int rank, bool backward);
/// Returns the bytes that `rank` receives from each rank in this attention.
std::vector<Index> attention_bytes_from(const LayerProblem& layer, const strategies::Strategy& strategy,
                                        const pattern::Partition& partition, int rank, bool backward);

}  // namespace annulus::layer
