// The two passes of a layer, and the two ways in which they are spread over ranks.
//   by rows   (none, fsdp)  a rank has its rows of everything; weights come to it, gradients of weights are summed
//   piece
//                           by piece, so that no rank holds one in full that does not keep it
//   by heads  (tensor)      a rank has all rows of its query heads, of the K/V heads that these read, and of the
//                           weights' columns (rows, of wo) that belong to them. x, y and their gradients stay spread by
//                           rows: x and dy are gathered for use, the ranks' shares of y and dx are summed piece by
//                           piece, as each piece's owner needs it
#pragma once

#include "annulus/comm/exchange.hpp"
#include "annulus/layer/gathering.hpp"
#include "annulus/layer/layer.hpp"
#include "annulus/layer/products.hpp"

namespace annulus::layer {

/// The attention that a rank computes: with `tensor` that of its heads, of which there may be none.
strategies::Problem problem_of(const LayerProblem& layer, int rank, int ranks);

/// What a pass works with beside its tensors; see Layer.
class Pass {
 public:
  Pass(const LayerProblem& problem, const pattern::Partition& partition, const strategies::Strategy& strategy,
       const comm::Communicator& attention_comm, const comm::Communicator& comm, const strategies::Progress& progress);

  bool by_heads() const { return layer.sharding == Sharding::tensor; }
  const pattern::StoredRows& own_rows() const { return partition[std::size_t(comm.rank())]; }
  /// This rank's rows of x and y, over all batch entries.
  Index own_row_count() const { return problem.shape.batch * own_rows().count(); }
  /// Rows that this rank computes with: by heads all.
  const pattern::StoredRows& rows() const { return by_heads() ? attention_partition[0] : own_rows(); }
  Index row_count() const { return problem.shape.batch * rows().count(); }
  core::DType type() const { return problem.type; }
  Index width() const { return layer.width; }

  const LayerProblem& layer;
  const pattern::Partition& partition;           ///< of x and y
  const strategies::Problem problem;             ///< of the attention of this rank's heads
  const pattern::Partition attention_partition;  ///< among the ranks of attention_comm
  const strategies::Strategy& strategy;          ///< likewise
  const comm::Communicator& attention_comm;      ///< by heads: this rank alone
  const comm::Communicator& comm;                ///< for the layer's own messages
  const strategies::Progress& progress;
};

/// What a pass does with rows and weights; weights are used in the given order.
class Work {
 public:
  Work(const Pass& pass, const Weights& weights, std::vector<Weight> order, bool with_biases, LayerMetrics& metrics);

  /// The rows that this rank computes with, (row_count, E), of every rank's own ones: by heads gathered into `owner`,
  /// in global order.
  Matrix gather_rows(const core::Buffer& own, core::Buffer& owner, const char* purpose);

  /// This rank's own rows of y or dx, which by heads are sums of all ranks' shares, as a buffer (B, own rows, E).
  ///   make(rank, rows, piece)  writes to `piece` this rank's share of rows `rows` of its (row_count, E) matrix, which
  ///                            belong to rank `rank`; by heads called for one batch entry after another
  ///   type                     of `piece`; by heads the arithmetic type
  core::Buffer own_rows(const char* purpose, core::DType type,
                        const std::function<void(int rank, core::Interval rows, const Matrix& piece)>& make);

  /// Sums over ranks of pieces of numbers of the arithmetic type, one for each rank; `sum` becomes this rank's.
  void sum_pieces(const std::vector<Index>& numbers, const std::function<void(int rank, void* piece)>& make, void* sum);
  /// Adds to the gradient of a weight of K/V heads what other ranks have of it.
  void sum_shared(const Matrix& gradient);

  /// The attention's progress, which also keeps the layer's own messages moving.
  strategies::Progress progress();
  /// Writes the products' metrics down.
  void finish();

  const Pass& pass;
  LayerMetrics& metrics;
  WeightStream weights;
  Products products;

 private:
  void poll();
  void count(std::pair<Index, Index> bytes);

  comm::Exchange exchange_;
};

ForwardResult forward(const Pass& pass, const Weights& weights, const core::Buffer& x);
BackwardResult backward(const Pass& pass, const Weights& weights, const core::Buffer& x, strategies::Tensors saved,
                        const core::Buffer& dy, InputGradient dx);

/// Weights in the order in which a backward pass uses them.
std::vector<Weight> backward_order(InputGradient dx);

}  // namespace annulus::layer
