#include "annulus/strategies/keys/stream_keys.hpp"

namespace annulus::strategies {

void StreamKeys::start_read(std::size_t slot, const pattern::Hop& from, const KeyBlock& into,
                            core::HopMetrics& metrics) {
  const Problem& problem = context_.problem;
  const Index bytes = kv_bytes(problem, into.held);
  StoredRead& read = reads_[slot];
  void* const host = read.open(context_.location.stored_rows(), into.data, bytes);
  const std::array<core::TensorView, 2> kv = kv_views(problem, host, into.held, true);
  const StoredRowsOf rows{core::StoredTensor::k, context_.location.entry(), problem.shape.kv_heads,
                          problem.head_kv_bytes()};
  read.start(core::StoredTensor::k, head_pieces(rows, from.receive, kv[0].data));
  read.start(core::StoredTensor::v, head_pieces(rows, from.receive, kv[1].data));
  metrics.bytes_received += bytes;
  metrics.rows_received += into.held;
}

}  // namespace annulus::strategies
