#include "annulus/layer/gathering.hpp"

namespace annulus::layer {

RowGathering::RowGathering(const comm::Communicator& comm, const Matrix& matrix, LayerMetrics& metrics)
    : metrics_(metrics), gather_(comm) {
  const Index row_bytes = matrix.columns * Index(core::bytes_of(matrix.type));
  std::vector<comm::RowBlock> blocks;
  for (int p = 0; p < comm.size(); ++p) {
    blocks.push_back({matrix.data, 1, matrix.rows, row_bytes, core::even_part(matrix.rows, comm.size(), p)});
    if (p != comm.rank()) metrics.bytes_received += blocks.back().bytes();
  }
  const comm::RowBlock& own = blocks[std::size_t(comm.rank())];
  metrics.bytes_sent += own.bytes() * (comm.size() - 1);
  gather_.start(own, blocks);
}

void RowGathering::wait() {
  core::timed_wait(metrics_, "gather weights", [&] {
    while (gather_.next()) {
    }
    gather_.finish();
  });
}

WeightStream::WeightStream(const LayerProblem& problem, const comm::Communicator& comm, const Weights& kept,
                           std::vector<Weight> order, bool with_biases, LayerMetrics& metrics)
    : problem_(problem),
      comm_(comm),
      kept_(kept),
      order_(std::move(order)),
      with_biases_(with_biases),
      metrics_(metrics),
      coming_(fetch(order_.front())) {}

WeightStream::Fetched WeightStream::fetch_one(Weight weight) {
  const Rectangle own = kept(problem_, weight, comm_.rank(), comm_.size()), all = whole(problem_, weight);
  const core::DType type = problem_.attention.type;
  const Matrix part = matrix_at(kept_[weight].data(), type, own.rows.size(), own.columns.size());
  if (problem_.sharding != Sharding::fsdp) return {{}, part, nullptr};
  Fetched fetched;
  fetched.matrix = make_matrix(fetched.buffer, "gathered weight", type, all.rows.size(), all.columns.size());
  copy(part, fetched.matrix.take_rows(own.rows));
  fetched.gathering = std::make_unique<RowGathering>(comm_, fetched.matrix, metrics_);
  return fetched;
}

WeightStream::Pair WeightStream::fetch(Weight matrix) {
  Pair pair;
  pair.push_back(fetch_one(matrix));
  if (with_biases_ && problem_.has(bias_of(matrix))) pair.push_back(fetch_one(bias_of(matrix)));
  return pair;
}

WholeWeight WeightStream::get(Weight matrix) {
  if (problem_.sharding != Sharding::fsdp) {
    coming_ = fetch(matrix);
  } else {
    core::require(handed_out_ < order_.size() && order_[handed_out_] == matrix,
                  [&] { return fmt::format("{} is asked for out of order", name_of(matrix)); });
  }
  in_use_.clear();  // frees memory before the next weight is allocated
  in_use_ = std::move(coming_);
  coming_.clear();
  for (Fetched& one : in_use_) {
    if (one.gathering) one.gathering->wait();
  }
  if (++handed_out_ < order_.size()) coming_ = fetch(order_[handed_out_]);
  WholeWeight weight{in_use_[0].matrix, {}};
  if (in_use_.size() > 1) {  // a bias is stored as n rows of one number, but added as one row
    const Matrix& bias = in_use_[1].matrix;
    weight.bias = matrix_at(bias.data, bias.type, bias.columns, bias.rows);
  }
  return weight;
}

void WeightStream::progress() {
  for (Fetched& one : coming_) {
    if (one.gathering) one.gathering->progress();
  }
}

}  // namespace annulus::layer
