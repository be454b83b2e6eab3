// none and fsdp: every rank has its rows of x, q, k, v, y. The attention exchanges rows of k and v; weights come to the
// rank that uses them, and their gradients are summed piece by piece, so that no rank holds one in full that does not
// keep it.
#include "annulus/comm/reduce_scatter.hpp"
#include "annulus/layer/gathering.hpp"
#include "annulus/layer/heads.hpp"
#include "annulus/layer/passes.hpp"
#include "annulus/layer/products.hpp"

namespace annulus::layer {
namespace {

void note(const Products& products, LayerMetrics& metrics) {
  metrics.product_seconds = products.metrics().seconds;
  metrics.product_cpu_seconds = products.metrics().cpu_seconds;
  metrics.product_flops = products.metrics().flops;
}

/// The attention's progress, which also keeps the layer's own messages moving.
strategies::Progress polling(const strategies::Progress& progress, std::function<void()> poll) {
  return [&progress, poll = std::move(poll)](double share, const std::string& place) {
    poll();
    if (progress) progress(share, place);
  };
}

/// Sums over ranks of weight gradients.
class GradientSums {
 public:
  GradientSums(const Pass& pass, LayerMetrics& metrics)
      : pass_(pass), metrics_(metrics), exchange_(pass.comm), gradients_(make_gradients(pass)) {}

  void progress() { exchange_.progress(); }
  Weights take() { return std::move(gradients_); }

  /// make(rows, piece) writes what this rank's rows of x give to rows `rows` of the weight's gradient; `piece` has the
  /// arithmetic type and no gaps.
  void add_up(Weight weight, const std::function<void(core::Interval rows, const Matrix& piece)>& make) {
    const Box box = whole(pass_.problem, weight);
    const auto rows_of = [&](int rank) { return core::even_part(box.rows.end, pass_.comm.size(), rank); };
    const core::DType type = pass_.problem.attention.sum_type();
    const core::Interval own = rows_of(pass_.comm.rank());
    std::vector<Index> numbers;
    for (int p = 0; p < pass_.comm.size(); ++p) numbers.push_back(rows_of(p).size() * box.columns.end);
    core::Buffer owner;
    const Matrix sum = make_matrix(owner, "pieces of sums", type, own.size(), box.columns.end);
    const double start = core::wall_seconds();
    double making = 0;
    const auto make_piece = [&](int rank, void* piece) {
      const double before = core::wall_seconds();
      make(rows_of(rank), matrix_at(piece, type, rows_of(rank).size(), box.columns.end));
      making += core::wall_seconds() - before;
    };
    const auto [sent, received] =
        comm::reduce_scatter(pass_.comm, exchange_, pass_.problem.attention.precision, numbers, make_piece, sum.data);
    metrics_.bytes_sent += sent;
    metrics_.bytes_received += received;
    metrics_.wait_seconds += core::wall_seconds() - start - making;
    keep(weight, box, own, sum);
  }

 private:
  static Weights make_gradients(const Pass& pass) {
    return make_weights(pass.problem, pass.comm.rank(), pass.comm.size(), "weight gradients");
  }

  /// fsdp: the piece is what this rank keeps. none: the others' pieces are gathered beside it.
  void keep(Weight weight, const Box& box, core::Interval own, const Matrix& sum) {
    const bool all = pass_.problem.sharding == Sharding::none;
    const Matrix kept =
        matrix_at(gradients_[weight].data(), pass_.type(), all ? box.rows.end : own.size(), box.columns.end);
    copy(sum, all ? kept.take_rows(own) : kept);
    if (all) RowGathering(pass_.comm, kept, metrics_).wait();
  }

  const Pass& pass_;
  LayerMetrics& metrics_;
  comm::Exchange exchange_;
  Weights gradients_;
};

}  // namespace

ForwardResult forward_by_rows(const Pass& pass, const Weights& weights, const core::Buffer& x) {
  const strategies::Problem& problem = pass.problem.attention;
  ForwardResult result;
  WeightStream stream(pass.problem, pass.comm, weights, {Weight::wq, Weight::wk, Weight::wv, Weight::wo}, true,
                      result.metrics);
  const std::function<void()> poll = [&] { stream.progress(); };
  Products products(problem.sum_type(), poll);
  const Matrix rows_of_x = matrix_at(x.data(), pass.type(), pass.row_count(), pass.problem.width);

  strategies::Tensors& tensors = result.saved;
  tensors.q = core::Buffer("q", pass.row_count() * problem.query_row_bytes());
  tensors.kv = core::Buffer("kv", problem.kv_block_bytes(pass.rows().count()));
  const HeadTensors heads(problem, pass.rows().count(), tensors.q, tensors.kv);
  for (const Projection projection : all_projections) {
    const WholeWeight w = stream.next();
    products.forward(rows_of_x, w.matrix, w.bias, heads[projection]);
  }
  heads.turn(pass.problem.rope, pass.rows(), Turn::forward);
  result.metrics.attention =
      pass.strategy.forward(problem, pass.partition, pass.attention_comm, tensors, polling(pass.progress, poll));

  const WholeWeight w = stream.next();
  const Matrix y = make_matrix(result.y, "y", pass.type(), pass.row_count(), pass.problem.width);
  products.forward(matrix_at(tensors.out.data(), pass.type(), y.rows, w.matrix.rows), w.matrix, w.bias, y);
  note(products, result.metrics);
  return result;
}

BackwardResult backward_by_rows(const Pass& pass, const Weights& weights, const core::Buffer& x,
                                strategies::Tensors saved, const core::Buffer& dy) {
  const strategies::Problem& problem = pass.problem.attention;
  const Index rows = pass.row_count();
  BackwardResult result;
  WeightStream stream(pass.problem, pass.comm, weights, {Weight::wo, Weight::wv, Weight::wk, Weight::wq}, false,
                      result.metrics);
  GradientSums sums(pass, result.metrics);
  Products products(problem.sum_type(), [&] {
    stream.progress();
    sums.progress();
  });
  const auto sum_gradients = [&](Weight weight, const Matrix& in, const Matrix& dout) {
    sums.add_up(weight, [&](core::Interval piece_rows, const Matrix& piece) {
      products.weight_gradient(in.take_columns(piece_rows), dout, piece);
    });
    if (!pass.problem.has(bias_of(weight))) return;
    sums.add_up(bias_of(weight), [&](core::Interval piece_rows, const Matrix& piece) {
      products.bias_gradient(dout.take_columns(piece_rows), matrix_at(piece.data, piece.type, 1, piece.rows));
    });
  };
  const Matrix rows_of_x = matrix_at(x.data(), pass.type(), rows, pass.problem.width);
  const Matrix rows_of_dy = matrix_at(dy.data(), pass.type(), rows, pass.problem.width);
  const Matrix out = matrix_at(saved.out.data(), pass.type(), rows, problem.shape.heads * problem.shape.head_dim);

  const Matrix dout = make_matrix(saved.dout, "dout", pass.type(), rows, out.columns);
  products.input_gradient(rows_of_dy, stream.next().matrix, dout, false);
  sum_gradients(Weight::wo, out, rows_of_dy);
  result.metrics.attention = pass.strategy.backward(problem, pass.partition, pass.attention_comm, saved,
                                                    polling(pass.progress, [&] { stream.progress(); }));
  for (core::Buffer* done : {&saved.q, &saved.kv, &saved.out, &saved.lse, &saved.normalizers, &saved.dout}) *done = {};

  const HeadTensors gradients(problem, pass.rows().count(), saved.dq, saved.dkv);
  gradients.turn(pass.problem.rope, pass.rows(), Turn::back);
  core::Buffer owner;
  const Matrix dx = make_matrix(owner, "dx", products.arithmetic(), rows, pass.problem.width);
  for (const Projection projection : {Projection::v, Projection::k, Projection::q}) {
    products.input_gradient(gradients[projection], stream.next().matrix, dx, projection != Projection::v);
    sum_gradients(weight_of(projection), rows_of_x, gradients[projection]);
  }
  result.dx = stored(dx, owner, pass.type(), "dx");
  result.gradients = sums.take();
  note(products, result.metrics);
  return result;
}

}  // namespace annulus::layer
