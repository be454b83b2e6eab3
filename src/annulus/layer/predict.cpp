#include "annulus/layer/predict.hpp"

#include <algorithm>

#include "annulus/kernels/backward.hpp"
#include "annulus/layer/passes.hpp"
#include "annulus/strategies/computation.hpp"

namespace annulus::layer {
namespace {

using strategies::Problem;

/// Sizes in bytes on one rank. "Sums" are numbers of the type in which a pass adds up (sum_type()).
class Sizes {
 public:
  Sizes(const LayerProblem& problem, const pattern::Partition& partition, int rank)
      : problem_(problem), ranks_(int(partition.size())), rank_(rank) {
    for (const pattern::StoredRows& rows : partition) largest_rows_ = std::max(largest_rows_, rows.count());
  }

  Index stored(Index numbers) const { return numbers * Index(core::bytes_of(problem_.attention.type)); }
  Index sums(Index numbers) const { return numbers * Index(core::bytes_of(problem_.attention.sum_type())); }
  /// How many numbers (not bytes) x, y, dx or dy has in `rows` rows of all batch entries.
  Index rows_of_x(Index rows) const { return problem_.attention.shape.batch * rows * problem_.width; }
  /// Bytes of numbers that are computed as sums and then stored: one copy if sums have the storage type, otherwise two.
  Index summed_and_stored(Index numbers) const {
    return sums(numbers) + (problem_.attention.sum_type() == problem_.attention.type ? 0 : stored(numbers));
  }

  Index kept_weights() const {
    Index numbers = 0;
    for (const Weight w : all_weights) numbers += kept(problem_, w, rank_, ranks_).count();
    return stored(numbers);
  }
  /// Largest number of bytes that a weight in use and the next weight in `order` take together (WeightStream).
  Index gathered(const std::vector<Weight>& order, bool with_biases) const {
    if (problem_.sharding != Sharding::fsdp) return 0;
    Index most = 0, before = 0;
    for (const Weight w : order) {
      const Index now = whole(problem_, w).count() + (with_biases ? whole(problem_, bias_of(w)).count() : 0);
      most = std::max(most, before + now);
      before = now;
    }
    return stored(most);
  }
  /// Bytes of the buffers in comm::reduce_scatter(): one piece arrives, one leaves and, with more than 2 ranks, the
  /// next one is made. This rank's piece has `own` numbers, other pieces at most `largest`.
  Index pieces(Index own, Index largest) const { return ranks_ == 1 ? 0 : sums(own + largest * (ranks_ > 2 ? 2 : 1)); }
  /// Bytes of this rank's sums and of pieces() while the gradient of the largest weight is summed over ranks.
  Index gradient_pieces() const {
    Index most = 0;
    for (const Weight w : all_weights) {
      const Rectangle box = whole(problem_, w);
      const auto part = [&](int p) { return core::even_part(box.rows.end, ranks_, p).size() * box.columns.end; };
      most = std::max(most, sums(part(rank_)) + pieces(part(rank_), part(0)));
    }
    return most;
  }
  /// pieces() for y or dx, which are divided by rows.
  Index row_pieces(Index own_rows) const { return pieces(rows_of_x(own_rows), rows_of_x(largest_rows_)); }
  /// Bytes, before rounding to the storage type, of the largest gradient of a weight that this rank keeps.
  Index gradient_in_sums() const {
    Index most = 0;
    for (const Weight w : all_weights) most = std::max(most, kept(problem_, w, rank_, ranks_).count());
    return sums(most);
  }
  /// Bytes of what Products and matrix.hpp allocate: buffers for converted numbers, the row of fill(), and the column
  /// of ones of bias_gradient().
  Index rooms(Index rows) const {
    const core::Shape& s = problem_.attention.shape;
    const Index chunk = std::min(rows, Products::chunk_rows), widest = std::max(problem_.width, s.heads * s.head_dim);
    const Index constants = sums(chunk) + widest * Index(sizeof(double));
    if (problem_.attention.sum_type() == problem_.attention.type) return constants;
    return constants + sums(problem_.width * s.heads * s.head_dim + 2 * chunk * widest);
  }

 private:
  const LayerProblem& problem_;
  int ranks_, rank_;
  Index largest_rows_ = 0;
};

/// Bytes of q and kv with `rows` rows.
Index heads_bytes(const Problem& problem, Index rows) { return problem.shape.batch * rows * problem.input_row_bytes(); }
/// Bytes of dq and dkv with `rows` rows after the attention. If sums have a wider type than stored numbers, dq and dkv
/// stay in the larger buffers of their sums.
Index gradients_bytes(const Problem& problem, Index rows) {
  const Index each = Index(std::max(core::bytes_of(problem.type), core::bytes_of(problem.precision)));
  return heads_bytes(problem, rows) / Index(core::bytes_of(problem.type)) * each;
}
/// Bytes of out, lse and normalizers.
Index results_bytes(const Problem& problem, Index rows) {
  return problem.shape.batch * rows * problem.output_row_bytes();
}

/// Bytes that the attention's kernels keep after they have worked on this many rows.
Index kept_by_kernels(const Problem& problem, Index rows, bool backward) {
  if (problem.shape.heads == 0) return 0;
  const Index forward = strategies::kernel_memory(problem, rows) + strategies::key_parts_bytes(problem, rows, backward);
  if (!backward) return forward;
  return forward + kernels::attend_backward_bytes(problem.backend, problem.shape, rows, problem.precision);
}

}  // namespace

MemoryPrediction predict_memory(const LayerProblem& layer, const strategies::Strategy& strategy,
                                const pattern::Partition& partition, int rank) {
  const bool by_heads = layer.sharding == Sharding::tensor;
  const Problem problem = problem_of(layer, rank, int(partition.size()));
  const Sizes sizes(layer, partition, rank);
  const Index own = partition[std::size_t(rank)].count(), rows = by_heads ? problem.shape.sequence : own;
  const Index x = sizes.stored(sizes.rows_of_x(own));
  const Index gathered_x = by_heads ? sizes.stored(sizes.rows_of_x(rows)) : 0;
  const Index heads = heads_bytes(problem, rows), saved = heads + results_bytes(problem, rows);
  const Index dout = problem.shape.batch * rows * problem.query_row_bytes();
  const Index rooms = sizes.rooms(problem.shape.batch * rows);
  // If several ranks keep a K/V head, contributions to its gradient arrive one at a time, none larger than `gradient`.
  const Index gradient = by_heads ? sizes.gradient_in_sums() : sizes.gradient_pieces();
  const Index sum = sizes.summed_and_stored(sizes.rows_of_x(own)) + (by_heads ? sizes.row_pieces(own) : gradient);
  const auto attention = [&](bool backward) {
    return predict_attention(layer, strategy, partition, rank, backward).memory_bytes;
  };
  MemoryPrediction memory{.weights = sizes.kept_weights()};
  memory.forward = memory.weights + x + rooms + sizes.gathered({Weight::wq, Weight::wk, Weight::wv, Weight::wo}, true) +
                   std::max({heads + gathered_x, attention(false),
                             saved + kept_by_kernels(problem, rows, false) + (by_heads ? sum : x)});
  const auto backward = [&](InputGradient dx) {
    const Index at_end = dx == InputGradient::wanted ? sum : by_heads ? 0 : gradient;
    return 2 * memory.weights + 2 * x + rooms + sizes.gathered(backward_order(dx), false) +
           std::max({saved + dout + gathered_x + gradient, attention(true),
                     gradients_bytes(problem, rows) + kept_by_kernels(problem, rows, true) +
                         std::max(by_heads ? gathered_x + 2 * gradient : 0, at_end)});
  };
  memory.backward = backward(InputGradient::wanted);
  memory.training = std::max(memory.forward, backward(InputGradient::unwanted)) + x;
  return memory;
}

strategies::Prediction predict_attention(const LayerProblem& layer, const strategies::Strategy& strategy,
                                         const pattern::Partition& partition, int rank, bool backward) {
  const Problem problem = problem_of(layer, rank, int(partition.size()));
  const auto predict = [&](const strategies::Strategy& one, const pattern::Partition& among, int of) {
    return backward ? one.predict_backward(problem, among, of) : one.predict(problem, among, of);
  };
  if (layer.sharding != Sharding::tensor) return predict(strategy, partition, rank);
  if (problem.shape.heads == 0) return {};
  return predict(*strategies::find("single"), pattern::root_partition(problem.shape.sequence, 1), 0);
}

std::vector<Index> attention_bytes_from(const LayerProblem& layer, const strategies::Strategy& strategy,
                                        const pattern::Partition& partition, int rank, bool backward) {
  if (layer.sharding == Sharding::tensor) return std::vector<Index>(partition.size());
  const Problem problem = problem_of(layer, rank, int(partition.size()));
  return (backward ? strategy.backward_schedule(problem, partition) : strategy.forward_schedule(problem, partition))
      ->bytes_from(rank);
}

}  // namespace annulus::layer
