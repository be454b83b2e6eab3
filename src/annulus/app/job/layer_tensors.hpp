// An attention layer's tensors on their way from the input (or a checkpoint) into memory and into a file.
#pragma once

#include <string>
#include <vector>

#include "annulus/app/job/job.hpp"
#include "annulus/io/result_file.hpp"
#include "annulus/layer/layer.hpp"

namespace annulus::app {

/// The layer of a job with a section layer. Throws Error(usage) with the key's place when it makes no sense.
layer::LayerProblem layer_problem(const Job& job);

/// "width 512, rope base 10000, biases, sharding fsdp".
std::string describe_layer(const Job& job);
/// Bytes of weights that a rank keeps.
Index weight_bytes(const layer::LayerProblem& problem, int rank, int ranks);

/// (B, S, E) tensor.
io::TensorSpec rows_spec(const std::string& name, const layer::LayerProblem& problem);
/// Every weight there is, called prefix + "wq" ...
std::vector<io::TensorSpec> weight_specs(const std::string& prefix, const layer::LayerProblem& problem);

// All of these are collective and throw the same Error on every rank.

/// The fingerprint of a tensor (B, S, E) of which this rank has these rows.
std::uint64_t fingerprint_of(const core::Buffer& rows, const layer::Layer& layer, const comm::Communicator& comm);
/// This rank's rows of x, dy or target.
core::Buffer load_rows(const Job& job, const layer::Layer& layer, const std::string& dataset,
                       const comm::Communicator& comm);
/// The parts of the weights that this rank keeps: no rank reads more. From the input file's datasets, or from a file
/// (a checkpoint) that has them as weight_specs("").
layer::Weights load_weights(const Job& job, const layer::LayerProblem& problem, const comm::Communicator& comm);
layer::Weights load_weights(const io::SeenFile& file, const layer::LayerProblem& problem,
                            const comm::Communicator& comm);

/// This rank's rows of a (B, S, E) tensor, which have to be numbers.
void write_rows(const std::string& name, const core::Buffer& rows, const layer::Layer& layer,
                const comm::Communicator& comm, const io::ResultFile& file);
/// Weights, or their gradients, as weight_specs(prefix); they have to be numbers.
void write_weights(const std::string& prefix, const layer::Weights& weights, const layer::LayerProblem& problem,
                   const comm::Communicator& comm, const io::ResultFile& file);

}  // namespace annulus::app
