// Moves rows of x and dy, and pieces of sums, between ranks. (gathering.cpp moves weights.)
#include "annulus/comm/collectives.hpp"
#include "annulus/comm/reduce_scatter.hpp"
#include "annulus/layer/passes.hpp"

namespace annulus::layer {
namespace {

/// The ranks that keep a K/V head. These ranks are consecutive, because heads ascend by rank.
core::Interval keepers(const LayerProblem& problem, Index head, int ranks) {
  core::Interval found{0, 0};
  for (int p = 0; p < ranks; ++p) {
    const core::Interval heads = kv_heads(problem, p, ranks);
    if (head < heads.begin || head >= heads.end) continue;
    if (found.empty()) found.begin = p;
    found.end = p + 1;
  }
  return found;
}

/// Sums the gradients of weights whose K/V heads several ranks keep. `gradient` (in, this rank's K/V heads * D) is
/// contiguous. At first it has the contributions of this rank's query heads. The first rank that keeps a head receives
/// and adds the other ranks' contributions one by one, in the order of the ranks, and sends the sum to these ranks, so
/// that all ranks get the same bits. Returns how many bytes this rank sends; it receives as many. Collective.
/// Worked example: 4 query heads and 2 K/V heads on 4 ranks: ranks 0 and 1 sum head 0, ranks 2 and 3 head 1.
Index sum_shared_heads(const LayerProblem& problem, const comm::Communicator& comm, const Matrix& gradient) {
  const Index head_dim = problem.attention.shape.head_dim, rank = comm.rank();
  const core::Interval own = kv_heads(problem, comm.rank(), comm.size());
  core::Buffer buffer;
  Matrix share, sum;  // the contribution that arrives, and the sum to which it is added
  std::vector<comm::Message> shares_out, shares_in, sums_out, sums_in;
  Index bytes = 0;
  for (Index head = own.begin; head < own.end; ++head) {
    const core::Interval ranks = keepers(problem, head, comm.size());
    const Index index = head - own.begin;
    // The head's columns in all rows of the gradient. Each row of the gradient is a "part" of this RowBlock, and each
    // head's columns are a "row" of that part.
    const comm::RowBlock columns{
        gradient.data, gradient.rows, own.size(), head_dim * Index(core::bytes_of(gradient.type)), {index, index + 1}};
    if (rank != ranks.begin) {  // the first rank that keeps the head adds up the contributions
      shares_out.push_back({int(ranks.begin), columns});
      sums_in.push_back({int(ranks.begin), columns});
      bytes += columns.bytes();
      continue;
    }
    if (ranks.size() == 1) continue;
    // Later ranks can keep only the last of this rank's heads, so this code runs at most once: there is one `share`.
    share = make_matrix(buffer, "pieces of sums", gradient.type, gradient.rows, head_dim);
    sum = gradient.take_columns({index * head_dim, (index + 1) * head_dim});
    for (Index p = ranks.begin + 1; p < ranks.end; ++p) {
      shares_in.push_back({int(p), {share.data, gradient.rows, 1, columns.row_bytes, {0, 1}}});
      sums_out.push_back({int(p), columns});
      bytes += columns.bytes();
    }
  }
  comm::Exchange sending(comm), exchange(comm);
  sending.start(shares_out, {}, 0);
  for (const comm::Message& arriving : shares_in) {
    exchange.start({}, {arriving}, 0);
    exchange.wait();
    add(share, sum);
  }
  sending.wait();
  exchange.start(sums_out, sums_in, 0);
  exchange.wait();
  return bytes;
}

}  // namespace

strategies::Problem problem_of(const LayerProblem& layer, int rank, int ranks) {
  if (layer.sharding != Sharding::tensor) return layer.attention;
  return strategies::narrowed(layer.attention, query_heads(layer, rank, ranks));
}

Work::Work(const Pass& pass, const Weights& kept, std::vector<Weight> order, bool with_biases, LayerMetrics& metrics)
    : pass(pass),
      metrics(metrics),
      weights(pass.layer, pass.comm, kept, std::move(order), with_biases, metrics),
      products(pass.problem.sum_type(), [this] { poll(); }),
      exchange_(pass.comm) {}

void Work::poll() {
  weights.progress();
  exchange_.progress();
}

strategies::Progress Work::progress() {
  return [this](double share, const std::string& where) {
    poll();
    if (pass.progress) pass.progress(share, where);
  };
}

void Work::count(std::pair<Index, Index> bytes) {
  metrics.bytes_sent += bytes.first;
  metrics.bytes_received += bytes.second;
}

Matrix Work::gather_rows(const core::Buffer& own, core::Buffer& owner, const char* purpose) {
  const Index rows = pass.own_rows().count(), n = pass.rows().count(), batch = pass.problem.shape.batch;
  if (!pass.by_heads()) return matrix_at(own.data(), pass.type(), pass.row_count(), pass.width());
  const Index row_bytes = pass.width() * Index(core::bytes_of(pass.type()));
  const Matrix all = make_matrix(owner, purpose, pass.type(), pass.row_count(), pass.width());
  std::vector<core::Interval> owners;
  for (int p = 0; p < pass.comm.size(); ++p) owners.push_back(core::even_part(n, pass.comm.size(), p));
  core::timed_wait(metrics, "gather rows", [&] {
    comm::allgather_rows(pass.comm, {own.data(), batch, rows, row_bytes, {0, rows}},
                         {all.data, batch, n, row_bytes, {0, n}}, owners);
  });
  count({own.bytes() * (pass.comm.size() - 1), row_bytes * pass.row_count() - own.bytes()});
  return all;
}

core::Buffer Work::own_rows(const char* purpose, core::DType type,
                            const std::function<void(int rank, core::Interval rows, const Matrix& piece)>& make) {
  core::Buffer owner;
  if (!pass.by_heads()) {
    const Matrix rows = make_matrix(owner, purpose, type, pass.own_row_count(), pass.width());
    make(pass.comm.rank(), {0, rows.rows}, rows);
    return stored(rows, owner, pass.type(), purpose);
  }
  const Index batch = pass.problem.shape.batch, n = pass.rows().count();
  const Matrix sum = make_matrix(owner, purpose, products.arithmetic(), pass.own_row_count(), pass.width());
  const auto make_piece = [&](int rank, core::Interval rows, void* data) {
    const Matrix piece = matrix_at(data, sum.type, batch * rows.size(), pass.width());
    for (Index b = 0; b < batch; ++b) {
      make(rank, {b * n + rows.begin, b * n + rows.end}, piece.take_rows({b * rows.size(), (b + 1) * rows.size()}));
    }
  };
  sum_pieces(n, batch * pass.width(), make_piece, sum.data);
  return stored(sum, owner, pass.type(), purpose);
}

void Work::sum_pieces(Index rows, Index columns,
                      const std::function<void(int rank, core::Interval rows, void* piece)>& make, void* sum) {
  const auto rows_of = [&](int rank) { return core::even_part(rows, pass.comm.size(), rank); };
  std::vector<Index> numbers;
  for (int p = 0; p < pass.comm.size(); ++p) numbers.push_back(rows_of(p).size() * columns);
  core::Span span("reduce");
  double making = 0;
  const auto timed_make = [&](int rank, void* piece) {
    const double before = core::wall_seconds();
    make(rank, rows_of(rank), piece);
    making += core::wall_seconds() - before;
  };
  count(comm::reduce_scatter(pass.comm, exchange_, pass.problem.precision, numbers, timed_make, sum));
  metrics.wait_seconds += span.close() - making;
}

void Work::sum_shared(const Matrix& gradient) {
  core::timed_wait(metrics, "reduce", [&] {
    const Index bytes = sum_shared_heads(pass.layer, pass.comm, gradient);
    count({bytes, bytes});
  });
}

void Work::finish() {
  metrics.product_seconds = products.metrics().seconds;
  metrics.product_flops = products.metrics().flops;
}

}  // namespace annulus::layer
