#include "annulus/strategies/keys/stream_keys.hpp"

namespace annulus::strategies {

void StreamKeys::start_read(std::size_t slot, const pattern::Hop& from, const KeyBlock& into,
                            core::HopMetrics& metrics) {
  const Problem& problem = context_.problem;
  const Index bytes = kv_bytes(problem, into.held);
  StoredRead& read = reads_[slot];
  std::byte* const k = read.open(context_.location.stored_rows(), into.data, bytes);
  StoredRowsOf rows{core::StoredTensor::k, context_.location.entry(), problem.shape.kv_heads, problem.head_row_bytes()};
  read.start(core::StoredTensor::k, head_pieces(rows, from.receive, k));
  read.start(core::StoredTensor::v, head_pieces(rows, from.receive, k + bytes / 2));
  metrics.bytes_received += bytes;
  metrics.rows_received += into.held;
}

}  // namespace annulus::strategies
