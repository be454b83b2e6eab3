#include "annulus/layer/passes.hpp"

#include <algorithm>

#include "annulus/layer/rope.hpp"

namespace annulus::layer {
namespace {

/// The three projections of x, in the order of their weights wq, wk, wv.
enum class Projection { q, k, v };
inline constexpr std::array<Projection, 3> all_projections{Projection::q, Projection::k, Projection::v};
constexpr Weight weight_of(Projection projection) { return Weight(int(projection)); }

/// A rank's q (or dq) and kv (or dkv), as matrices with B * rows rows. In each row, the heads are side by side.
class HeadTensors {
 public:
  /// `problem` is the attention of this rank's heads, from problem_of(). It must outlive this object.
  HeadTensors(const strategies::Problem& problem, Index rows, const core::Buffer& q, const core::Buffer& kv)
      : problem_(problem) {
    const core::Shape& s = problem.shape;
    const Index all_rows = s.batch * rows, kv_columns = s.kv_heads * s.head_dim;
    const Matrix both = matrix_at(kv.data(), problem.type, 2 * all_rows, kv_columns);  // K of all batch entries, then V
    matrices_ = {matrix_at(q.data(), problem.type, all_rows, s.heads * s.head_dim), both.take_rows({0, all_rows}),
                 both.take_rows({all_rows, 2 * all_rows})};
  }

  Matrix operator[](Projection projection) const { return matrices_[std::size_t(projection)]; }
  /// Rotates q and k by rope(). Does nothing if `base` is empty, that is, if the layer has no rope.
  void rotate(const std::optional<double>& base, const pattern::StoredRows& rows, Direction direction) const {
    if (!base) return;
    const core::Shape& s = problem_.shape;
    const auto rotate_heads = [&](Projection projection, Index heads) {
      rope(core::contiguous_view((*this)[projection].data, problem_.type, rows.count(), heads, s.head_dim), s.batch,
           rows, heads, s.head_dim, *base, direction);
    };
    rotate_heads(Projection::q, s.heads);
    rotate_heads(Projection::k, s.kv_heads);
  }

 private:
  const strategies::Problem& problem_;
  std::array<Matrix, 3> matrices_;
};

/// The gradients of the weights that this rank keeps.
class WeightGradients {
 public:
  explicit WeightGradients(Work& work)
      : work_(work),
        gradients_(make_weights(work.pass.layer, work.pass.comm.rank(), work.pass.comm.size(), "weight gradients")) {}

  /// Computes the gradients of a weight matrix w and of its bias. `in` (row_count, in) is what is multiplied by w, and
  /// `dout` (row_count, out) is the gradient of the product.
  void make(Weight weight, const Matrix& in, const Matrix& dout) {
    make_one(weight, [&](core::Interval rows, const Matrix& piece) {
      work_.products.weight_gradient(in.take_columns(rows), dout, piece);
    });
    if (!work_.pass.layer.has(bias_of(weight))) return;
    make_one(bias_of(weight), [&](core::Interval rows, const Matrix& piece) {
      work_.products.bias_gradient(dout.take_columns(rows), as_row(piece));
    });
  }

  Weights take() { return std::move(gradients_); }

 private:
  using Make = std::function<void(core::Interval rows, const Matrix& piece)>;

  /// Returns a bias, which is stored as n rows of one number, as one row of n numbers.
  static Matrix as_row(const Matrix& bias) { return matrix_at(bias.data, bias.type, bias.columns, bias.rows); }

  /// Computes the gradient of one weight. make(rows, piece) writes to `piece` what this rank contributes to some rows
  /// of the gradient. `piece` is contiguous and has the arithmetic type.
  void make_one(Weight weight, const Make& make) {
    const Pass& pass = work_.pass;
    const Rectangle box = kept(pass.layer, weight, pass.comm.rank(), pass.comm.size());
    const Matrix to = matrix_at(gradients_[weight].data(), pass.type(), box.rows.size(), box.columns.size());
    core::Buffer owner;
    if (!pass.by_heads()) return sum_over_ranks(weight, make, to);
    const Matrix sum = make_matrix(owner, "weight gradient in sums", work_.products.arithmetic(), to.rows, to.columns);
    make({0, to.rows}, sum);
    if (is_of_keys(weight)) work_.sum_shared(is_bias(weight) ? as_row(sum) : sum);
    copy(sum, to);
  }

  void sum_over_ranks(Weight weight, const Make& make, const Matrix& to) {
    const comm::Communicator& comm = work_.pass.comm;
    const Rectangle box = whole(work_.pass.layer, weight);
    const Index columns = box.columns.end;
    const core::Interval own = core::even_part(box.rows.end, comm.size(), comm.rank());
    core::Buffer owner;
    const Matrix sum = make_matrix(owner, "pieces of sums", work_.products.arithmetic(), own.size(), columns);
    const auto make_piece = [&](int, core::Interval rows, void* piece) {
      make(rows, matrix_at(piece, sum.type, rows.size(), columns));
    };
    work_.sum_pieces(box.rows.end, columns, make_piece, sum.data);
    // With `fsdp`, this rank keeps only its piece. With `none`, it also gathers the other ranks' pieces.
    const bool all = work_.pass.layer.sharding == Sharding::none;
    copy(sum, all ? to.take_rows(own) : to);
    if (all) RowGathering(comm, to, work_.metrics).wait();
  }

  Work& work_;
  Weights gradients_;
};

}  // namespace

ForwardResult forward(const Pass& pass, const Weights& weights, const core::Buffer& x) {
  const strategies::Problem& problem = pass.problem;
  ForwardResult result;
  Work work(pass, weights, {Weight::wq, Weight::wk, Weight::wv, Weight::wo}, true, result.metrics);
  strategies::Tensors& tensors = result.saved;
  tensors.q = core::Buffer("q", pass.row_count() * problem.query_row_bytes());
  tensors.kv = core::Buffer("kv", problem.kv_block_bytes(pass.rows().count()));
  const HeadTensors heads(problem, pass.rows().count(), tensors.q, tensors.kv);
  {
    core::Buffer owner;
    const Matrix in = work.gather_rows(x, owner, "gathered x");
    for (const Projection projection : all_projections) {
      const WholeWeight w = work.weights.get(weight_of(projection));
      work.products.forward(in, w.matrix, w.bias, heads[projection]);
    }
  }
  if (problem.shape.heads > 0) {
    heads.rotate(pass.layer.rope, pass.rows(), Direction::forward);
    result.metrics.attention =
        pass.strategy.forward(problem, pass.attention_partition, pass.attention_comm, tensors, work.progress());
  }
  const WholeWeight wo = work.weights.get(Weight::wo);
  const Matrix out = matrix_at(tensors.out.data(), pass.type(), pass.row_count(), wo.matrix.rows);
  result.y = work.own_rows("y", pass.type(), [&](int rank, core::Interval rows, const Matrix& piece) {
    // Only the rows' owner adds the bias, because the contributions of all ranks are summed.
    work.products.forward(out.take_rows(rows), wo.matrix, rank == pass.comm.rank() ? wo.bias : Matrix{}, piece);
  });
  work.finish();
  return result;
}

std::vector<Weight> backward_order(InputGradient dx) {
  if (dx == InputGradient::unwanted) return {Weight::wo};
  return {Weight::wo, Weight::wv, Weight::wk, Weight::wq};
}

BackwardResult backward(const Pass& pass, const Weights& weights, const core::Buffer& x, strategies::Tensors saved,
                        const core::Buffer& dy, InputGradient dx) {
  BackwardResult result;
  Work work(pass, weights, backward_order(dx), false, result.metrics);
  WeightGradients gradients(work);
  const strategies::Problem& problem = pass.problem;
  {
    core::Buffer owner;
    const Matrix all_dy = work.gather_rows(dy, owner, "gathered dy");
    const Index columns = problem.shape.heads * problem.shape.head_dim;
    const Matrix out = matrix_at(saved.out.data(), pass.type(), pass.row_count(), columns);
    const Matrix dout = make_matrix(saved.dout, "dout", pass.type(), pass.row_count(), columns);
    work.products.input_gradient(all_dy, work.weights.get(Weight::wo).matrix, dout, false);
    gradients.make(Weight::wo, out, all_dy);
  }
  if (problem.shape.heads > 0) {
    result.metrics.attention =
        pass.strategy.backward(problem, pass.attention_partition, pass.attention_comm, saved, work.progress());
  }
  for (core::Buffer* done : {&saved.q, &saved.kv, &saved.out, &saved.lse, &saved.normalizers, &saved.dout}) *done = {};

  const HeadTensors heads(problem, pass.rows().count(), saved.dq, saved.dkv);
  if (problem.shape.heads > 0) heads.rotate(pass.layer.rope, pass.rows(), Direction::back);
  if (pass.by_heads()) {
    core::Buffer owner;
    const Matrix all_x = work.gather_rows(x, owner, "gathered x");
    for (const Projection projection : all_projections) gradients.make(weight_of(projection), all_x, heads[projection]);
  }
  // By rows, dx uses weights in backward_order(), and gradients are made in the loop of dx: while a gradient is summed
  // over ranks, the next weight is gathered.
  auto order = all_projections;
  if (!pass.by_heads()) std::reverse(order.begin(), order.end());
  const auto make_gradients = [&](Projection projection) {
    const Matrix own_x = matrix_at(x.data(), pass.type(), pass.row_count(), pass.width());
    gradients.make(weight_of(projection), own_x, heads[projection]);
  };
  const auto make_dx = [&](int, core::Interval rows, const Matrix& piece) {
    for (const Projection projection : order) {
      const WholeWeight w = work.weights.get(weight_of(projection));
      work.products.input_gradient(heads[projection].take_rows(rows), w.matrix, piece, projection != order.front());
      if (!pass.by_heads()) make_gradients(projection);
    }
  };
  if (dx == InputGradient::wanted) {
    result.dx = work.own_rows("dx", work.products.arithmetic(), make_dx);
  } else if (!pass.by_heads()) {
    for (const Projection projection : order) make_gradients(projection);
  }
  result.gradients = gradients.take();
  work.finish();
  return result;
}

}  // namespace annulus::layer
