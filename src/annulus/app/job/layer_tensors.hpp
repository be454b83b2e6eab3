// Moves an attention layer's tensors from the input (or a checkpoint) into memory, and from memory into a file.
#pragma once

#include <string>
#include <vector>

#include "annulus/app/job/request.hpp"
#include "annulus/layer/layer.hpp"
#include "annulus/store/shared_blocks.hpp"
#include "annulus/verify/verify.hpp"

namespace annulus::app {

/// Specification of a (B, S, E) tensor. If `type` is empty, it has the layer's type.
store::TensorSpec rows_spec(const std::string& name, const layer::LayerProblem& problem,
                            std::optional<core::DType> type = std::nullopt);
/// Specifications of all weights of the layer, whose datasets are named prefix + "wq" ...
std::vector<store::TensorSpec> weight_specs(const std::string& prefix, const layer::LayerProblem& problem,
                                            std::optional<core::DType> type = std::nullopt);

// All functions below are collective and throw the same Error on every rank.

/// The fingerprint of a tensor (B, S, E). `rows` has this rank's rows of the tensor.
std::uint64_t fingerprint_of(const core::Buffer& rows, const layer::Layer& layer, const comm::Communicator& comm);
/// The fingerprint of all weights; it does not depend on the sharding.
std::uint64_t fingerprint_of(const layer::Weights& weights, const layer::LayerProblem& problem,
                             const comm::Communicator& comm);
/// Loads this rank's rows of x, dy or target.
core::Buffer load_rows(const Request& request, const layer::Layer& layer, const std::string& dataset,
                       const comm::Communicator& comm);
/// Load only the parts of the weights that this rank keeps. The first function reads the input file's datasets, the
/// second those of a checkpoint, which are weight_specs("").
layer::Weights load_weights(const Request& request, const layer::LayerProblem& problem, const comm::Communicator& comm);
layer::Weights load_weights(const store::InspectedFile& file, const layer::LayerProblem& problem,
                            const comm::Communicator& comm);

/// Writes weights, or their gradients, as weight_specs(prefix). If `file` is nullptr, only checks them. Throws if a
/// number is NaN or infinite; the message ends with `causes`.
void write_weights(const std::string& prefix, const layer::Weights& weights, const layer::LayerProblem& problem,
                   const std::string& causes, const comm::Communicator& comm, store::RowWriter* file);

/// Compares sampled rows of a result, of attention or of a layer, with the definition of attention.
verify::Findings compare_with_definition(const Request& request, const verify::Sample& sample,
                                         const comm::Communicator& comm);

}  // namespace annulus::app
