// Fetches parts of weights that other ranks keep, while this rank computes.
#pragma once

#include <memory>
#include <vector>

#include "annulus/comm/gather.hpp"
#include "annulus/layer/layer.hpp"
#include "annulus/layer/matrix.hpp"

namespace annulus::layer {

/// Gathers a contiguous matrix on every rank. At first, rank p has only the rows even_part(rows, P, p). All ranks must
/// start their gatherings in the same order. Call progress() often while you compute, and wait() before you read the
/// matrix.
class RowGathering {
 public:
  /// Starts the gathering. The matrix must stay in memory as long as this object lives.
  RowGathering(const comm::Communicator& comm, const Matrix& matrix, LayerMetrics& metrics);
  void progress() { gather_.progress(); }
  void wait();

 private:
  LayerMetrics& metrics_;
  comm::Gather gather_;
};

/// A weight in the form that this rank computes with.
struct WholeWeight {
  Matrix matrix;  ///< (in, out)
  Matrix bias;    ///< (1, out); empty if the layer has none, or if the stream was made without biases
};

/// Returns one weight after another: a matrix and its bias. With fsdp, constructor and get() are collective, and all
/// ranks must get the weights in the order that the constructor was given. While one weight is in use, the next weight
/// is gathered. Each call of get() frees the weight that the call before returned, so at most two are in memory. With
/// other shardings, this rank keeps every weight that it needs, and may get them in any order.
class WeightStream {
 public:
  WeightStream(const LayerProblem& problem, const comm::Communicator& comm, const Weights& kept,
               std::vector<Weight> order, bool with_biases, LayerMetrics& metrics);

  /// The result is valid until the next call.
  WholeWeight get(Weight matrix);
  /// Lets messages of the gathering make progress.
  void progress();

 private:
  /// A weight that is gathered into `buffer`; or, if `gathering` is null, a view of a weight that this rank keeps.
  struct Fetched {
    core::Buffer buffer;
    Matrix matrix;
    std::unique_ptr<RowGathering> gathering;
  };
  /// A matrix, followed by its bias.
  using Pair = std::vector<Fetched>;

  Pair fetch(Weight matrix);
  Fetched fetch_one(Weight weight);

  const LayerProblem& problem_;
  const comm::Communicator& comm_;
  const Weights& kept_;
  std::vector<Weight> order_;
  bool with_biases_;
  LayerMetrics& metrics_;
  std::size_t handed_out_ = 0;
  Pair in_use_, coming_;
};

}  // namespace annulus::layer
