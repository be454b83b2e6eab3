#include "annulus/layer/shared_heads.hpp"

#include "annulus/comm/exchange.hpp"

namespace annulus::layer {
namespace {

/// Ranks that keep a K/V head: consecutive ones, since heads are dealt in order.
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

}  // namespace

std::pair<Index, Index> sum_shared_heads(const LayerProblem& problem, const comm::Communicator& comm,
                                         const Matrix& gradient) {
  const Index head_dim = problem.attention.shape.head_dim, rank = comm.rank();
  const core::Interval own = kv_heads(problem, comm.rank(), comm.size());
  struct Arriving {
    core::Buffer buffer;
    Matrix numbers, sum;
  };
  std::vector<Arriving> arriving;
  std::vector<comm::Message> shares_out, shares_in, sums_out, sums_in;
  for (Index head = own.begin; head < own.end; ++head) {
    const core::Interval ranks = keepers(problem, head, comm.size());
    const Index index = head - own.begin;
    // The head's columns of every row of the gradient: a part with one row per head.
    const comm::RowBlock columns{
        gradient.data, gradient.rows, own.size(), head_dim * Index(core::bytes_of(gradient.type)), {index, index + 1}};
    if (rank != ranks.begin) {  // the first keeper adds up
      shares_out.push_back({int(ranks.begin), columns});
      sums_in.push_back({int(ranks.begin), columns});
      continue;
    }
    for (Index p = ranks.begin + 1; p < ranks.end; ++p) {
      Arriving& share = arriving.emplace_back();
      share.numbers = make_matrix(share.buffer, "pieces of sums", gradient.type, gradient.rows, head_dim);
      share.sum = gradient.take_columns({index * head_dim, (index + 1) * head_dim});
      shares_in.push_back({int(p), {share.numbers.data, gradient.rows, 1, columns.row_bytes, {0, 1}}});
      sums_out.push_back({int(p), columns});
    }
  }
  comm::Exchange exchange(comm);
  exchange.start(shares_out, shares_in, 0);
  exchange.wait();
  for (const Arriving& share : arriving) add(share.numbers, share.sum);
  exchange.start(sums_out, sums_in, 0);
  exchange.wait();
  std::pair<Index, Index> bytes{0, 0};
  for (const auto* messages : {&shares_out, &sums_out}) {
    for (const comm::Message& message : *messages) bytes.first += message.block.bytes();
  }
  for (const auto* messages : {&shares_in, &sums_in}) {
    for (const comm::Message& message : *messages) bytes.second += message.block.bytes();
  }
  return bytes;
}

}  // namespace annulus::layer
