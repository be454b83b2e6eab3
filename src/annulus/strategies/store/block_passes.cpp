#include "annulus/strategies/store/block_passes.hpp"

#include "annulus/kernels/kept_memory.hpp"
#include "annulus/strategies/keys/stream_plan.hpp"
#include "annulus/strategies/store/query_stream.hpp"
#include "annulus/strategies/stored_tensors.hpp"

namespace annulus::strategies {
namespace {

using core::StoredTensor;

Problem of_one_entry(Problem problem) {
  problem.shape.batch = 1;
  return problem;
}

/// Describes a tensor of the problem in the store.
StoredRowsOf stored(StoredTensor tensor, const Problem& problem, const Location& location) {
  return {tensor, location.entry(), heads_of(problem, tensor),
          head_numbers_of(problem, tensor) * number_bytes_of(problem, tensor)};
}

/// Reads `bytes` bytes of a block's rows into a new buffer. The caller's start(read, host) must start the reads, which
/// fill memory at `host`.
template <class Start>
core::Buffer read_into(const std::string& name, Index bytes, const Location& location, core::HopMetrics& metrics,
                       const Start& start) {
  core::Buffer buffer(name, bytes);
  StoredRead read;
  start(read, read.open(location.stored_rows(), buffer.data(), bytes));
  core::timed_wait(metrics, "read own rows", [&] { read.wait(); });
  metrics.bytes_received += bytes;
  return buffer;
}

/// Reads all heads of a block's rows.
core::Buffer read_rows(const Problem& problem, const Location& location, const pattern::StoredRows& rows,
                       StoredTensor tensor, core::HopMetrics& metrics) {
  const StoredRowsOf from = stored(tensor, problem, location);
  return read_into(std::string(name_of(tensor)), rows.count() * from.row_bytes(), location, metrics,
                   [&](StoredRead& read, void* host) { read.start(tensor, row_pieces(from, rows, host)); });
}
core::Buffer read_keys(const Problem& problem, const Location& location, const pattern::StoredRows& rows,
                       core::HopMetrics& metrics) {
  const auto start = [&](StoredRead& read, void* host) {
    const StoredRowsOf from{StoredTensor::k, location.entry(), problem.shape.kv_heads, problem.head_kv_bytes()};
    const std::array<core::TensorView, 2> kv = kv_views(problem, host, rows.count());
    read.start(StoredTensor::k, row_pieces(from, rows, kv[0].data));
    read.start(StoredTensor::v, row_pieces(from, rows, kv[1].data));
  };
  return read_into("kv", problem.kv_block_bytes(rows.count()), location, metrics, start);
}

/// Adds the costs of reading the block's own rows to the metrics of the pass's first hop.
void add_own(const core::HopMetrics& own, core::RankMetrics& metrics) {
  metrics.hops[0].wait_seconds += own.wait_seconds;
  metrics.hops[0].bytes_received += own.bytes_received;
}

}  // namespace

BlockPasses::BlockPasses(const Problem& problem, pattern::Partition blocks, bool dlse, std::vector<double> sink)
    : problem_(of_one_entry(problem)),
      entries_(problem.shape.batch),
      blocks_(std::move(blocks)),
      dlse_(dlse),
      sink_(std::move(sink)) {
  forward_ = std::make_unique<const Schedule>(read_from_store(), problem_, blocks_);
  if (!problem_.gradients) return;
  of_queries_ = std::make_unique<const Schedule>(read_from_store_for_queries(), problem_, blocks_);
  of_keys_ = std::make_unique<const Schedule>(read_from_store_for_keys(dlse_), problem_, blocks_);
}

UnitCost BlockPasses::cost(int phase, Index block) const {
  const Index count = rows(block).count(), kv = problem_.kv_block_bytes(count);
  const int rank = int(block);
  UnitCost cost;
  if (phase == 1) {
    const Prediction backward = of_keys_->predict(rank);
    cost.memory_bytes = backward.memory_bytes;
    cost.bytes_read = kv + count * query_row_bytes(problem_, dlse_) + backward.bytes_received;
    cost.bytes_written = kv;
    cost.kept = backward.kept;
    cost.products = 4;
    return cost;
  }
  const Prediction forward = forward_->predict(rank);
  cost.memory_bytes = forward.memory_bytes;
  cost.bytes_read = count * problem_.input_row_bytes() + forward.bytes_received;
  cost.bytes_written = count * problem_.output_row_bytes();
  cost.kept = forward.kept;
  cost.products = 2;
  if (!problem_.gradients) return cost;
  const Prediction backward = of_queries_->predict(rank);
  cost.memory_bytes = std::max(cost.memory_bytes, backward.memory_bytes);
  cost.bytes_read += backward.bytes_received + count * (problem_.out_row_bytes() + dlse_ * problem_.lse_row_bytes());
  cost.bytes_written += count * problem_.query_row_bytes();
  cost.products += 3;
  return cost;
}

UnitMetrics BlockPasses::run(int phase, Index unit, core::RowSource& source, core::RowSink& sink,
                             const Progress& progress, const std::function<void()>& poll) const {
  const Location location(int(block_of(unit)), entry_of(unit), source);
  Tensors tensors;
  tensors.poll = poll;
  tensors.sink = sink_;
  return phase == 0 ? run_queries(location, sink, progress, std::move(tensors))
                    : run_keys(location, sink, progress, std::move(tensors));
}

UnitMetrics BlockPasses::run_queries(const Location& location, core::RowSink& sink, const Progress& progress,
                                     Tensors tensors) const {
  const pattern::StoredRows& rows = this->rows(location.rank());
  kernels::release_kept_memory();  // panels that the previous unit's pass left may be larger than this pass needs
  core::HopMetrics own;
  const auto write = [&](StoredTensor tensor, const core::Buffer& buffer) {
    write_rows(sink, stored(tensor, problem_, location), rows, buffer);
  };
  tensors.q = read_rows(problem_, location, rows, StoredTensor::q, own);
  tensors.kv = read_keys(problem_, location, rows, own);
  UnitMetrics metrics;
  metrics.forward = run_forward_pass(*forward_, location, tensors, progress);
  add_own(own, *metrics.forward);
  write(StoredTensor::out, tensors.out);
  write(StoredTensor::lse, tensors.lse);
  if (problem_.statistics.entropy) write(StoredTensor::entropy, tensors.entropy);
  if (!problem_.gradients) return metrics;
  write(StoredTensor::normalizers, tensors.normalizers);
  kernels::release_kept_memory();
  tensors.entropy = {};
  own = {};
  read_late(location, tensors, own);
  metrics.backward = run_backward_pass(*of_queries_, location, tensors, progress);
  metrics.sink_sums = std::move(tensors.sink_sums);
  add_own(own, *metrics.backward);
  write(StoredTensor::dq, tensors.dq);
  return metrics;
}

void BlockPasses::read_late(const Location& location, Tensors& tensors, core::HopMetrics& metrics) const {
  const pattern::StoredRows& rows = this->rows(location.rank());
  tensors.dout = read_rows(problem_, location, rows, StoredTensor::dout, metrics);
  if (dlse_) tensors.dlse = read_rows(problem_, location, rows, StoredTensor::dlse, metrics);
}

UnitMetrics BlockPasses::run_keys(const Location& location, core::RowSink& sink, const Progress& progress,
                                  Tensors tensors) const {
  const pattern::StoredRows& rows = this->rows(location.rank());
  kernels::release_kept_memory();
  core::HopMetrics own;
  tensors.kv = read_keys(problem_, location, rows, own);
  tensors.q = read_rows(problem_, location, rows, StoredTensor::q, own);
  tensors.out = read_rows(problem_, location, rows, StoredTensor::out, own);
  tensors.normalizers = read_rows(problem_, location, rows, StoredTensor::normalizers, own);
  read_late(location, tensors, own);
  UnitMetrics metrics;
  metrics.backward = run_backward_pass(*of_keys_, location, tensors, progress);
  add_own(own, *metrics.backward);
  write_rows(sink, stored(StoredTensor::dk, problem_, location), rows, tensors.dkv);
  write_rows(sink, stored(StoredTensor::dv, problem_, location), rows, tensors.dkv, dk_bytes(problem_, rows.count()));
  return metrics;
}

}  // namespace annulus::strategies
