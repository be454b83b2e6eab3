// An attention layer that can be trained. All ranks compute it together:
//   y = attention(rope(x wq + bq), rope(x wk + bk), x wv + bv) wo + bo
// dx and dy are gradients with respect to x and y. On each rank, x, y, dx, dy and the target of a training have the
// shape (B, rows, E): this rank's rows in the order of its StoredRows, row-major, in memory of the default execution
// space, with the problem's type. E is problem.width.
#pragma once

#include "annulus/core/layer_metrics.hpp"
#include "annulus/layer/weights.hpp"
#include "annulus/strategies/strategy.hpp"

namespace annulus::layer {

/// Returns which rows of x, y, dx, dy and target each rank has. The strategy divides the rows, except with `tensor`
/// sharding: then each rank has one contiguous part.
pattern::Partition partition_of(const LayerProblem& problem, const strategies::Strategy& strategy, int ranks);

using core::LayerMetrics;

struct ForwardResult {
  core::Buffer y;
  /// What the backward pass needs in addition to x: q and kv (after rope), out, lse, normalizers. With `tensor` these
  /// tensors have all rows of this rank's heads, otherwise this rank's rows of all heads.
  strategies::Tensors saved;
  LayerMetrics metrics;
};

/// Says whether the backward pass computes dx. Training does not need dx. To compute dx, the pass uses wq, wk and wv,
/// and with `fsdp` it must gather these weights again.
enum class InputGradient { wanted, unwanted };

struct BackwardResult {
  core::Buffer dx;    ///< empty with InputGradient::unwanted
  Weights gradients;  ///< gradients of the kept() parts, in the problem's type, summed over all rows of all ranks
  LayerMetrics metrics;
};

struct Pass;

class Layer {
 public:
  /// `strategy` computes the attention, except with `tensor` sharding: then each rank computes the attention of its
  /// heads on its own. `strategy` and `comm` must outlive the layer. Collective. Throws the errors of check(), and of
  /// the strategy's check_ranks() if these ranks lack what the strategy needs.
  Layer(LayerProblem problem, const strategies::Strategy& strategy, const comm::Communicator& comm);

  const LayerProblem& problem() const { return problem_; }
  /// The result of partition_of() for these ranks.
  const pattern::Partition& partition() const { return partition_; }
  const pattern::StoredRows& rows() const { return partition_[std::size_t(comm_.rank())]; }

  /// Computes y, and does not change `weights` or `x`. Collective. If only one rank throws core::Error, the other ranks
  /// wait for its messages, which never come.
  ForwardResult forward(const Weights& weights, const core::Buffer& x, const strategies::Progress& progress = {}) const;

  /// Returns the gradients of sum(dy * y) with respect to every weight and, if wanted, to x. In rows that do not exist
  /// (gaps between documents), dy must be 0. The gradients of weights have the same bits with and without dx. `saved`
  /// is what forward() has saved for the same x and weights; it is freed during the call. Collective.
  BackwardResult backward(const Weights& weights, const core::Buffer& x, strategies::Tensors saved,
                          const core::Buffer& dy, const strategies::Progress& progress = {},
                          InputGradient dx = InputGradient::wanted) const;

  /// Returns the regression loss 1/(2 N) sum (y - target)^2, the same on every rank. N is B S E (S: rows of the
  /// sequence) minus the numbers in rows that do not exist; if N is 0, the loss is 0. In rows that do not exist, the
  /// target must be 0. Replaces `y` by the gradient of the loss, (y - target) / N. Each rank adds its rows up in
  /// float64, then the ranks' sums are added in the order of the ranks. Collective.
  double loss(core::Buffer& y, const core::Buffer& target) const;

 private:
  void clear_missing_rows(core::Buffer& y) const;
  Pass pass(const strategies::Progress& progress) const;

  LayerProblem problem_;
  const strategies::Strategy& strategy_;
  const comm::Communicator& comm_;
  comm::Communicator own_comm_;  // for the layer's messages, which may be in flight together with the attention's
  comm::Communicator alone_;     // this rank only; with `tensor`, the attention uses it
  pattern::Partition partition_;
};

/// One step of gradient descent: weights -= rate * gradients, for the parts that this rank keeps. Local.
void descend(const LayerProblem& problem, double rate, const Weights& gradients, Weights& weights);

}  // namespace annulus::layer
