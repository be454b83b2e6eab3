// The two passes of a layer, and the two ways to divide them among ranks.
// by rows   (none, fsdp)  A rank has its rows of all tensors. With fsdp it gathers weights. Gradients of weights are
//                         summed over ranks piece by piece (one piece for each rank), so that a rank has a whole
//                         gradient in memory only if it keeps the whole weight.
// by heads  (tensor)      A rank has all rows of its query heads and of the K/V heads that these read, and the columns
//                         of weights (rows of wo) that belong to these heads. x, y and their gradients stay divided by
//                         rows. x and dy are gathered before use. Each rank computes a contribution to all rows of y
//                         and dx. These contributions are summed piece by piece. Each rank gets the piece with the
//                         sums of its own rows.
#pragma once

#include "annulus/comm/exchange.hpp"
#include "annulus/layer/gathering.hpp"
#include "annulus/layer/layer.hpp"
#include "annulus/layer/products.hpp"

namespace annulus::layer {

/// Returns the attention that a rank computes. With `tensor` this is the attention of its heads; a rank may have no
/// heads.
strategies::Problem problem_of(const LayerProblem& layer, int rank, int ranks);

/// The arguments of a pass apart from its tensors; see Layer.
struct Pass {
  bool by_heads() const { return layer.sharding == Sharding::tensor; }
  const pattern::StoredRows& own_rows() const { return partition[std::size_t(comm.rank())]; }
  /// Number of this rank's rows of x and y in all batch entries.
  Index own_row_count() const { return problem.shape.batch * own_rows().count(); }
  /// The rows that this rank computes with: by rows, its own rows; by heads, all rows.
  const pattern::StoredRows& rows() const { return by_heads() ? attention_partition[0] : own_rows(); }
  Index row_count() const { return problem.shape.batch * rows().count(); }
  core::DType type() const { return problem.type; }
  Index width() const { return layer.width; }

  const LayerProblem& layer;
  const pattern::Partition& partition;           ///< rows of x and y on every rank
  const strategies::Problem problem;             ///< the attention that this rank computes, from problem_of()
  const pattern::Partition attention_partition;  ///< rows of the ranks in attention_comm
  const strategies::Strategy& strategy;          ///< computes the attention
  const comm::Communicator& attention_comm;      ///< for messages of the attention; by heads, it has only this rank
  const comm::Communicator& comm;                ///< for messages of the layer itself
  const strategies::Progress& progress;
};

/// The operations of a pass on rows and weights. With fsdp, callers must get the weights in the order `order` (see
/// WeightStream).
class Work {
 public:
  Work(const Pass& pass, const Weights& weights, std::vector<Weight> order, bool with_biases, LayerMetrics& metrics);

  /// Returns the rows that this rank computes with, (row_count, E). `own` has this rank's own rows. By heads, allocates
  /// `owner` (`purpose` names it in the memory ledger) and gathers all ranks' rows in it, in the order of the sequence.
  /// By rows, returns `own`.
  Matrix gather_rows(const core::Buffer& own, core::Buffer& owner, const char* purpose);

  /// Returns this rank's own rows of y or dx, as a buffer (B, own rows, E). By heads, each row is the sum of the
  /// contributions of all ranks.
  /// make(rank, rows, piece)  computes this rank's contribution to those rows of the (row_count, E) matrix that belong
  ///                          to `rank`, and writes it to `piece`. By heads, each call has rows of one batch entry
  /// type                     by rows, the type of `piece`. By heads, `piece` has the arithmetic type (see Products)
  core::Buffer own_rows(const char* purpose, core::DType type,
                        const std::function<void(int rank, core::Interval rows, const Matrix& piece)>& make);

  /// Sums a (rows, columns) matrix over ranks, in the arithmetic type. Rank p gets the sums of the rows
  /// even_part(rows, P, p) in its `sum`. make(p, rows, piece) writes to `piece` what this rank adds to rank p's rows.
  void sum_pieces(Index rows, Index columns,
                  const std::function<void(int rank, core::Interval rows, void* piece)>& make, void* sum);
  /// By heads, adds to this rank's gradient of wk, wv, bk or bv what other ranks with the same K/V heads contribute.
  void sum_shared(const Matrix& gradient);

  /// The progress function for the attention. Each call also lets messages of the layer make progress.
  strategies::Progress progress();
  /// Copies the products' seconds and flops to `metrics`.
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

/// The weights in the order in which a backward pass by rows uses them.
std::vector<Weight> backward_order(InputGradient dx);

}  // namespace annulus::layer
