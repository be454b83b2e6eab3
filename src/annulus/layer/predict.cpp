#include "annulus/layer/predict.hpp"

#include <algorithm>

#include "annulus/kernels/backward.hpp"
#include "annulus/layer/products.hpp"
#include "annulus/strategies/computation.hpp"

namespace annulus::layer {
namespace {

using strategies::Problem;

/// Sizes in bytes on one rank; "sums" are in the arithmetic type.
class Sizes {
 public:
  Sizes(const LayerProblem& problem, const pattern::Partition& partition, int rank)
      : problem_(problem), ranks_(int(partition.size())), rank_(rank) {
    for (const pattern::StoredRows& rows : partition) largest_rows_ = std::max(largest_rows_, rows.count());
  }

  Index stored(Index numbers) const { return numbers * Index(core::bytes_of(problem_.attention.type)); }
  Index sums(Index numbers) const { return numbers * Index(core::bytes_of(problem_.attention.sum_type())); }
  /// x, y, dx or dy of so many rows.
  Index rows_of_x(Index rows) const { return problem_.attention.shape.batch * rows * problem_.width; }
  /// What is made in sums and then stored: one copy where the types are the same.
  Index summed_and_stored(Index numbers) const {
    return sums(numbers) + (problem_.attention.sum_type() == problem_.attention.type ? 0 : stored(numbers));
  }

  Index kept_weights() const {
    Index numbers = 0;
    for (const Weight w : all_weights) numbers += kept(problem_, w, rank_, ranks_).count();
    return stored(numbers);
  }
  /// The weight in use and the next, of this order; see WeightStream.
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
  /// Pieces under way in a sum over ranks: `own` and `largest` numbers; see comm::reduce_scatter().
  Index pieces(Index own, Index largest) const { return ranks_ == 1 ? 0 : sums(own + largest * (ranks_ > 2 ? 2 : 1)); }
  /// Of the largest matrix, when its gradient is summed: the own piece too.
  Index gradient_pieces() const {
    Index most = 0;
    for (const Weight w : all_weights) {
      const Box box = whole(problem_, w);
      const auto part = [&](int p) { return core::even_part(box.rows.end, ranks_, p).size() * box.columns.end; };
      most = std::max(most, sums(part(rank_)) + pieces(part(rank_), part(0)));
    }
    return most;
  }
  /// Pieces of y or dx, spread by rows.
  Index row_pieces(Index own_rows) const { return pieces(rows_of_x(own_rows), rows_of_x(largest_rows_)); }
  /// The largest gradient that this rank makes alone.
  Index gradient_in_sums() const {
    Index most = 0;
    for (const Weight w : all_weights) most = std::max(most, kept(problem_, w, rank_, ranks_).count());
    return sums(most);
  }
  /// Room for numbers in the arithmetic type, see Products, and its row of constants and column of ones.
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

/// q and kv of `rows` rows.
Index heads_bytes(const Problem& problem, Index rows) { return problem.shape.batch * rows * problem.input_row_bytes(); }
/// dq and dkv of `rows` rows behind the attention, where they stay in the memory of their sums if those are larger.
Index gradients_bytes(const Problem& problem, Index rows) {
  const Index each = Index(std::max(core::bytes_of(problem.type), core::bytes_of(problem.precision)));
  return heads_bytes(problem, rows) / Index(core::bytes_of(problem.type)) * each;
}
/// out, lse and normalizers.
Index results_bytes(const Problem& problem, Index rows) {
  return problem.shape.batch * rows * problem.output_row_bytes();
}

/// What the attention's kernels keep once they have worked on so many rows.
Index kept_by_kernels(const Problem& problem, Index rows, bool backward) {
  const Index forward = strategies::kernel_memory(problem, rows);
  if (!backward) return forward;
  return forward + kernels::attend_backward_bytes(problem.backend, problem.shape, rows, problem.precision);
}

/// Attention of a rank that has all rows of its heads, of which there may be none.
strategies::Prediction alone(const Problem& problem, bool backward) {
  if (problem.shape.heads == 0) return {};
  const strategies::Strategy& single = *strategies::find("single");
  const pattern::Partition all = pattern::root_partition(problem.shape.sequence, 1);
  return backward ? single.predict_backward(problem, all, 0) : single.predict(problem, all, 0);
}

MemoryPrediction predict_by_rows(const LayerProblem& layer, const strategies::Strategy& strategy,
                                 const pattern::Partition& partition, int rank) {
  const Problem& problem = layer.attention;
  const Sizes sizes(layer, partition, rank);
  const Index rows = partition[std::size_t(rank)].count(), all_rows = problem.shape.batch * rows;
  const Index x = sizes.stored(sizes.rows_of_x(rows)), rooms = sizes.rooms(all_rows);
  const Index saved = heads_bytes(problem, rows) + results_bytes(problem, rows),
              dout = all_rows * problem.query_row_bytes();
  const Index forward_gathered = sizes.gathered({Weight::wq, Weight::wk, Weight::wv, Weight::wo}, true);
  const Index backward_gathered = sizes.gathered({Weight::wo, Weight::wv, Weight::wk, Weight::wq}, false);
  MemoryPrediction memory{.weights = sizes.kept_weights()};
  memory.forward = memory.weights + x + rooms + forward_gathered +
                   std::max(strategy.predict(problem, partition, rank).memory_bytes,
                            saved + x + kept_by_kernels(problem, rows, false));
  memory.backward = 2 * memory.weights + 2 * x + rooms + backward_gathered +
                    std::max({saved + dout + sizes.gradient_pieces(),
                              strategy.predict_backward(problem, partition, rank).memory_bytes,
                              gradients_bytes(problem, rows) + kept_by_kernels(problem, rows, true) +
                                  sizes.summed_and_stored(sizes.rows_of_x(rows)) + sizes.gradient_pieces()});
  return memory;
}

MemoryPrediction predict_by_heads(const LayerProblem& layer, const pattern::Partition& partition, int rank) {
  const int ranks = int(partition.size());
  const Problem problem = strategies::narrowed(layer.attention, query_heads(layer, rank, ranks));
  const Sizes sizes(layer, partition, rank);
  const Index rows = partition[std::size_t(rank)].count(), n = problem.shape.sequence;
  const Index x = sizes.stored(sizes.rows_of_x(rows)), all_x = sizes.stored(sizes.rows_of_x(n));
  const Index heads = heads_bytes(problem, n), saved = heads + results_bytes(problem, n);
  const Index rooms = sizes.rooms(problem.shape.batch * n), dout = problem.shape.batch * n * problem.query_row_bytes();
  const Index sum = sizes.summed_and_stored(sizes.rows_of_x(rows)) + sizes.row_pieces(rows);
  const Index attention = alone(problem, false).memory_bytes, attention_backward = alone(problem, true).memory_bytes;
  const bool works = problem.shape.heads > 0;
  const Index kernels = works ? kept_by_kernels(problem, n, false) : 0,
              kernels_backward = works ? kept_by_kernels(problem, n, true) : 0;
  MemoryPrediction memory{.weights = sizes.kept_weights()};
  memory.forward = memory.weights + x + rooms + std::max({heads + all_x, attention, saved + kernels + sum});
  // Of a K/V head that several ranks keep, another rank's share is no larger than the gradient that it is added to.
  memory.backward =
      2 * memory.weights + 2 * x + rooms +
      std::max({saved + dout + all_x + sizes.gradient_in_sums(), attention_backward,
                gradients_bytes(problem, n) + kernels_backward + std::max(all_x + 2 * sizes.gradient_in_sums(), sum)});
  return memory;
}

}  // namespace

MemoryPrediction predict_memory(const LayerProblem& problem, const strategies::Strategy& strategy,
                                const pattern::Partition& partition, int rank) {
  MemoryPrediction memory = problem.sharding == Sharding::tensor ? predict_by_heads(problem, partition, rank)
                                                                 : predict_by_rows(problem, strategy, partition, rank);
  const Sizes sizes(problem, partition, rank);
  memory.training =
      std::max(memory.forward, memory.backward) + sizes.stored(sizes.rows_of_x(partition[std::size_t(rank)].count()));
  return memory;
}

strategies::Prediction predict_attention(const LayerProblem& problem, const strategies::Strategy& strategy,
                                         const pattern::Partition& partition, int rank, bool backward) {
  const Problem& attention = problem.attention;
  if (problem.sharding == Sharding::tensor) {
    return alone(strategies::narrowed(attention, query_heads(problem, rank, int(partition.size()))), backward);
  }
  return backward ? strategy.predict_backward(attention, partition, rank)
                  : strategy.predict(attention, partition, rank);
}

}  // namespace annulus::layer
