// tensor: every rank has all rows of its query heads, of the K/V heads that these read, and of the weights' columns
// (rows, of wo) that belong to them. x, y and their gradients stay spread by rows: x and dy are gathered for use, the
// ranks' shares of y and dx are summed piece by piece, as each piece's owner needs it.
#include "annulus/comm/collectives.hpp"
#include "annulus/comm/reduce_scatter.hpp"
#include "annulus/layer/heads.hpp"
#include "annulus/layer/passes.hpp"
#include "annulus/layer/products.hpp"
#include "annulus/layer/shared_heads.hpp"

namespace annulus::layer {
namespace {

/// One rank's work on its heads.
class HeadPass {
 public:
  HeadPass(const Pass& pass, const Weights& weights, LayerMetrics& metrics)
      : pass_(pass),
        weights_(weights),
        metrics_(metrics),
        narrow_(strategies::narrowed(pass.problem.attention,
                                     query_heads(pass.problem, pass.comm.rank(), pass.comm.size()))),
        all_rows_({{0, narrow_.shape.sequence}}),
        exchange_(pass.comm),
        products_(narrow_.sum_type(), [this] { exchange_.progress(); }) {}

  const strategies::Problem& narrow() const { return narrow_; }
  const pattern::StoredRows& all_rows() const { return all_rows_; }
  Products& products() { return products_; }
  bool has_heads() const { return narrow_.shape.heads > 0; }
  Index row_count() const { return narrow_.shape.batch * narrow_.shape.sequence; }

  /// The part of a weight that this rank keeps, a bias as one row.
  Matrix weight(Weight weight) const {
    const Box box = kept(pass_.problem, weight, pass_.comm.rank(), pass_.comm.size());
    const Index rows = box.rows.size(), columns = box.columns.size();
    return matrix_at(weights_[weight].data(), pass_.type(), is_bias(weight) ? 1 : rows,
                     is_bias(weight) ? rows : columns);
  }

  /// (B, n, E) from every rank's (B, rows, E), in global order.
  Matrix gather(const core::Buffer& own, core::Buffer& owner, const char* purpose) {
    const core::Shape& s = narrow_.shape;
    const Index row_bytes = pass_.problem.width * Index(core::bytes_of(pass_.type()));
    const Matrix all = make_matrix(owner, purpose, pass_.type(), row_count(), pass_.problem.width);
    std::vector<core::Interval> owners;
    for (int p = 0; p < pass_.comm.size(); ++p) owners.push_back(rows_of(p));
    const Index rows = pass_.rows().count();
    core::timed_wait(metrics_, [&] {
      comm::allgather_rows(pass_.comm, {own.data(), s.batch, rows, row_bytes, {0, rows}},
                           {all.data, s.batch, s.sequence, row_bytes, {0, s.sequence}}, owners);
    });
    metrics_.bytes_sent += own.bytes() * (pass_.comm.size() - 1);
    metrics_.bytes_received += row_bytes * row_count() - own.bytes();
    return all;
  }

  /// This rank's rows of a (B, n, E) array that is the sum of all ranks' shares, as a buffer (B, rows, E).
  ///   make(rank, rows, piece)  writes to `piece` this rank's share of rows `rows` of the (B n, E) matrix, which belong
  ///                            to rank `rank`; called for one batch entry after another
  core::Buffer sum_rows(const char* purpose,
                        const std::function<void(int rank, core::Interval rows, const Matrix& piece)>& make) {
    const core::Shape& s = narrow_.shape;
    const Index width = pass_.problem.width;
    std::vector<Index> numbers;
    for (int p = 0; p < pass_.comm.size(); ++p) numbers.push_back(s.batch * rows_of(p).size() * width);
    core::Buffer owner;
    const Matrix sum = make_matrix(owner, purpose, products_.arithmetic(), pass_.row_count(), width);
    const double start = core::wall_seconds(), computing = products_.metrics().seconds;
    const auto make_piece = [&](int rank, void* data) {
      const core::Interval rows = rows_of(rank);
      const Matrix piece = matrix_at(data, sum.type, s.batch * rows.size(), width);
      for (Index b = 0; b < s.batch; ++b) {
        make(rank, {b * s.sequence + rows.begin, b * s.sequence + rows.end},
             piece.take_rows({b * rows.size(), (b + 1) * rows.size()}));
      }
    };
    const auto [sent, received] =
        comm::reduce_scatter(pass_.comm, exchange_, narrow_.precision, numbers, make_piece, sum.data);
    metrics_.bytes_sent += sent;
    metrics_.bytes_received += received;
    metrics_.wait_seconds += core::wall_seconds() - start - (products_.metrics().seconds - computing);
    return stored(sum, owner, pass_.type(), purpose);
  }

  /// Adds to the gradient of a weight of K/V heads what other ranks have of it; collective.
  void sum_shared(const Matrix& gradient) {
    core::timed_wait(metrics_, [&] {
      const auto [sent, received] = sum_shared_heads(pass_.problem, pass_.comm, gradient);
      metrics_.bytes_sent += sent;
      metrics_.bytes_received += received;
    });
  }

  void finish() {
    metrics_.product_seconds = products_.metrics().seconds;
    metrics_.product_cpu_seconds = products_.metrics().cpu_seconds;
    metrics_.product_flops = products_.metrics().flops;
  }

 private:
  core::Interval rows_of(int rank) const { return core::even_part(narrow_.shape.sequence, pass_.comm.size(), rank); }

  const Pass& pass_;
  const Weights& weights_;
  LayerMetrics& metrics_;
  const strategies::Problem narrow_;
  const pattern::StoredRows all_rows_;
  comm::Exchange exchange_;
  Products products_;
};

/// Gradients of this rank's weights, made in the arithmetic type and then stored.
class HeadGradients {
 public:
  HeadGradients(const Pass& pass, HeadPass& heads)
      : pass_(pass),
        heads_(heads),
        gradients_(make_weights(pass.problem, pass.comm.rank(), pass.comm.size(), "weight gradients")) {}

  /// Of a matrix and its bias, from what went in and the gradient of what came out, all rows.
  void make(Weight weight, const Matrix& in, const Matrix& dout) {
    make_one(weight, in.columns, dout.columns,
             [&](const Matrix& to) { heads_.products().weight_gradient(in, dout, to); });
    if (!pass_.problem.has(bias_of(weight))) return;
    make_one(bias_of(weight), 1, dout.columns, [&](const Matrix& to) { heads_.products().bias_gradient(dout, to); });
  }

  Weights take() { return std::move(gradients_); }

 private:
  template <class Make>
  void make_one(Weight weight, Index rows, Index columns, Make&& make) {
    core::Buffer owner;
    const Matrix sum = make_matrix(owner, "weight gradient in sums", heads_.products().arithmetic(), rows, columns);
    make(sum);
    if (is_of_keys(weight)) {
      heads_.sum_shared(sum);
    }
    copy(sum, matrix_at(gradients_[weight].data(), pass_.type(), rows, columns));
  }

  const Pass& pass_;
  HeadPass& heads_;
  Weights gradients_;
};

}  // namespace

ForwardResult forward_by_heads(const Pass& pass, const Weights& weights, const core::Buffer& x) {
  ForwardResult result;
  HeadPass heads(pass, weights, result.metrics);
  const strategies::Problem& narrow = heads.narrow();
  strategies::Tensors& tensors = result.saved;
  tensors.q = core::Buffer("q", heads.row_count() * narrow.query_row_bytes());
  tensors.kv = core::Buffer("kv", narrow.kv_block_bytes(narrow.shape.sequence));
  const HeadTensors projected(narrow, narrow.shape.sequence, tensors.q, tensors.kv);
  {
    core::Buffer owner;
    const Matrix all_x = heads.gather(x, owner, "gathered x");
    for (const Projection projection : all_projections) {
      const Weight w = weight_of(projection);
      heads.products().forward(all_x, heads.weight(w), heads.weight(bias_of(w)), projected[projection]);
    }
  }
  if (heads.has_heads()) {
    projected.turn(pass.problem.rope, heads.all_rows(), Turn::forward);
    result.metrics.attention =
        pass.strategy.forward(narrow, {heads.all_rows()}, pass.attention_comm, tensors, pass.progress);
  }
  const Matrix wo = heads.weight(Weight::wo);
  const Matrix out = matrix_at(tensors.out.data(), pass.type(), heads.row_count(), wo.rows);
  result.y = heads.sum_rows("y", [&](int rank, core::Interval rows, const Matrix& piece) {
    // The bias belongs to the sum, so only one share has it: the owner's.
    const Matrix bias = rank == pass.comm.rank() ? heads.weight(Weight::bo) : Matrix{};
    heads.products().forward(out.take_rows(rows), wo, bias, piece);
  });
  heads.finish();
  return result;
}

BackwardResult backward_by_heads(const Pass& pass, const Weights& weights, const core::Buffer& x,
                                 strategies::Tensors saved, const core::Buffer& dy) {
  BackwardResult result;
  HeadPass heads(pass, weights, result.metrics);
  HeadGradients gradients(pass, heads);
  const strategies::Problem& narrow = heads.narrow();
  const Matrix wo = heads.weight(Weight::wo);
  {
    core::Buffer owner;
    const Matrix all_dy = heads.gather(dy, owner, "gathered dy");
    const Matrix out = matrix_at(saved.out.data(), pass.type(), heads.row_count(), wo.rows);
    const Matrix dout = make_matrix(saved.dout, "dout", pass.type(), heads.row_count(), wo.rows);
    heads.products().input_gradient(all_dy, wo, dout, false);
    gradients.make(Weight::wo, out, all_dy);
  }
  if (heads.has_heads()) {
    result.metrics.attention =
        pass.strategy.backward(narrow, {heads.all_rows()}, pass.attention_comm, saved, pass.progress);
  }
  for (core::Buffer* done : {&saved.q, &saved.kv, &saved.out, &saved.lse, &saved.normalizers, &saved.dout}) *done = {};

  const HeadTensors projected(narrow, narrow.shape.sequence, saved.dq, saved.dkv);
  if (heads.has_heads()) projected.turn(pass.problem.rope, heads.all_rows(), Turn::back);
  {
    core::Buffer owner;
    const Matrix all_x = heads.gather(x, owner, "gathered x");
    for (const Projection projection : all_projections) {
      gradients.make(weight_of(projection), all_x, projected[projection]);
    }
  }
  result.dx = heads.sum_rows("dx", [&](int, core::Interval rows, const Matrix& piece) {
    for (const Projection projection : all_projections) {
      heads.products().input_gradient(projected[projection].take_rows(rows), heads.weight(weight_of(projection)), piece,
                                      projection != Projection::q);
    }
  });
  result.gradients = gradients.take();
  heads.finish();
  return result;
}

}  // namespace annulus::layer
