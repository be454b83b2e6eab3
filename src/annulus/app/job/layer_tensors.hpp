// An attention layer's tensors on their way from the input (or a checkpoint) into memory and into a file.
#pragma once

#include <string>
#include <vector>

#include "annulus/app/job/request.hpp"
#include "annulus/layer/layer.hpp"
#include "annulus/store/shared_blocks.hpp"

namespace annulus::app {

/// Bytes of weights that a rank keeps.
Index weight_bytes(const layer::LayerProblem& problem, int rank, int ranks);

/// (B, S, E) tensor, of the layer's type or another.
store::TensorSpec rows_spec(const std::string& name, const layer::LayerProblem& problem,
                            std::optional<core::DType> type = std::nullopt);
/// Every weight there is, called prefix + "wq" ...
std::vector<store::TensorSpec> weight_specs(const std::string& prefix, const layer::LayerProblem& problem,
                                            std::optional<core::DType> type = std::nullopt);

// All of these are collective and throw the same Error on every rank.

/// The fingerprint of a tensor (B, S, E) of which this rank has these rows.
std::uint64_t fingerprint_of(const core::Buffer& rows, const layer::Layer& layer, const comm::Communicator& comm);
/// The fingerprint of all weights, whatever the sharding.
std::uint64_t fingerprint_of(const layer::Weights& weights, const layer::LayerProblem& problem,
                             const comm::Communicator& comm);
/// This rank's rows of x, dy or target.
core::Buffer load_rows(const Request& request, const layer::Layer& layer, const std::string& dataset,
                       const comm::Communicator& comm);
/// The parts of the weights that this rank keeps: no rank reads more. From the input file's datasets, or from a file
/// (a checkpoint) that has them as weight_specs("").
layer::Weights load_weights(const Request& request, const layer::LayerProblem& problem, const comm::Communicator& comm);
layer::Weights load_weights(const store::InspectedFile& file, const layer::LayerProblem& problem,
                            const comm::Communicator& comm);

/// Weights, or their gradients, as weight_specs(prefix); they have to be numbers.
void write_weights(const std::string& prefix, const layer::Weights& weights, const layer::LayerProblem& problem,
                   const comm::Communicator& comm, store::RowWriter& file);

}  // namespace annulus::app
