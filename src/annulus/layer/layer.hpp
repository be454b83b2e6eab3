// The attention layer, trainable and distributed:
//   y = attention(rope(x wq + bq), rope(x wk + bk), x wv + bv) wo + bo
// x, y, dx, dy and the target are (B, rows, E) with this rank's rows in the order of its StoredRows, row-major, in the
// memory of the default execution space, all of the problem's type. E is problem.width.
#pragma once

#include "annulus/core/layer_metrics.hpp"
#include "annulus/layer/weights.hpp"
#include "annulus/strategies/strategy.hpp"

namespace annulus::layer {

/// Rows of x, y, dx, dy and target on every rank: the strategy's partition; contiguous with `tensor`.
pattern::Partition partition_of(const LayerProblem& problem, const strategies::Strategy& strategy, int ranks);

using core::LayerMetrics;

struct ForwardResult {
  core::Buffer y;
  /// What the backward pass needs beside x: q, kv (after rope), out, lse, normalizers. With `tensor` all rows of this
  /// rank's heads, else the rank's rows of all heads.
  strategies::Tensors saved;
  LayerMetrics metrics;
};

/// Whether a backward pass makes the gradient by x, for which it would use all weights once more. Training has no use
/// for it.
enum class InputGradient { wanted, unwanted };

struct BackwardResult {
  core::Buffer dx;    ///< empty where it is unwanted
  Weights gradients;  ///< kept() of each, in the problem's type: sums over all rows of all ranks, none left to add
  LayerMetrics metrics;
};

class Layer {
 public:
  /// Collective. `strategy` computes the attention; with `tensor` sharding it is not asked, every rank computes its
  /// heads by itself. `strategy` and `comm` must outlive the layer. Throws as check()
  /// and, where this comm is too poor for the strategy, as its check_ranks().
  Layer(LayerProblem problem, const strategies::Strategy& strategy, const comm::Communicator& comm);

  const LayerProblem& problem() const { return problem_; }
  /// partition_of() these ranks.
  const pattern::Partition& partition() const { return partition_; }
  const pattern::StoredRows& rows() const { return partition_[std::size_t(comm_.rank())]; }

  /// Collective. `weights` and `x` are only read. Throws core::Error; a rank that throws leaves the others waiting.
  ForwardResult forward(const Weights& weights, const core::Buffer& x, const strategies::Progress& progress = {}) const;

  /// Gradients of sum(dy * y) by x and every weight; those by weights have the same bits whether that by x is wanted or
  /// not. Collective; takes what forward() saved of the same x and weights, and frees it on the way.
  BackwardResult backward(const Weights& weights, const core::Buffer& x, strategies::Tensors saved,
                          const core::Buffer& dy, const strategies::Progress& progress = {},
                          InputGradient dx = InputGradient::wanted) const;

  /// The regression loss 1/(2 N) sum (y - target)^2 over all N = B S E numbers, the same value on every rank. `y`
  /// becomes the loss's gradient, (y - target) / N. Sums are float64, row by row; ranks are added in their order.
  /// Collective.
  double loss(core::Buffer& y, const core::Buffer& target) const;

 private:
  const comm::Communicator& attention_comm() const { return problem_.sharding == Sharding::tensor ? alone_ : comm_; }

  LayerProblem problem_;
  const strategies::Strategy& strategy_;
  const comm::Communicator& comm_;
  comm::Communicator own_comm_;  // for the layer's own messages: they may be in flight while the attention exchanges
  comm::Communicator alone_;     // this rank, for the attention of its heads
  pattern::Partition partition_;
};

/// A plain step of gradient descent: weights -= rate * gradients, in the parts that this rank keeps. Local.
void descend(const LayerProblem& problem, double rate, const Weights& gradients, Weights& weights);

}  // namespace annulus::layer
