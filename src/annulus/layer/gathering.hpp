// Rows that other ranks keep, fetched while this rank computes.
#pragma once

#include <memory>
#include <vector>

#include "annulus/comm/gather.hpp"
#include "annulus/layer/layer.hpp"
#include "annulus/layer/matrix.hpp"

namespace annulus::layer {

/// Gathers the rows of a matrix without gaps, of which every rank p has its even_part(rows, P, p) in place already. All
/// ranks make their gatherings in the same order. Use: progress() now and then while computing, wait() before reading.
class RowGathering {
 public:
  /// Starts. The matrix' memory must outlive this.
  RowGathering(const comm::Communicator& comm, const Matrix& matrix, LayerMetrics& metrics);
  void progress() { gather_.progress(); }
  void wait();

 private:
  LayerMetrics& metrics_;
  comm::Gather gather_;
};

/// A weight as this rank computes with it.
struct WholeWeight {
  Matrix matrix;  ///< (in, out)
  Matrix bias;    ///< (1, out); empty where there is none or none was asked for
};

/// Hands out weights, matrices with their biases. With fsdp in the order of their use: the next one is gathered while
/// the one in use is used, so that two are complete at most, and freed afterwards; collective, all ranks use the same
/// order. Else they are simply the parts that the rank keeps, in any order.
class WeightStream {
 public:
  WeightStream(const LayerProblem& problem, const comm::Communicator& comm, const Weights& kept,
               std::vector<Weight> order, bool with_biases, LayerMetrics& metrics);

  /// Valid until the following call.
  WholeWeight get(Weight matrix);
  /// Lets messages move.
  void progress();

 private:
  /// A weight in flight; of the parts that this rank keeps only the description.
  struct Fetched {
    core::Buffer buffer;
    Matrix matrix;
    std::unique_ptr<RowGathering> gathering;
  };
  /// A matrix and, after it, its bias.
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
