#include "annulus/strategies/store/query_stream.hpp"

#include <algorithm>

namespace annulus::strategies {
namespace {

using core::StoredTensor;

using Place = core::Buffer Tensors::*;  // in a declaration nvcc puts it into parentheses, which g++ warns of

/// The tensors of a block, and where they lie in it.
struct Part {
  StoredTensor tensor;
  Index head_bytes;
  Place place;
};

std::vector<Part> parts_of(const Problem& problem, bool dlse) {
  const Index head = problem.head_row_bytes();
  std::vector<Part> parts{{StoredTensor::normalizers, problem.head_normalizer_bytes(), &Tensors::normalizers}};
  if (dlse) parts.push_back({StoredTensor::dlse, problem.lse_row_bytes() / problem.shape.heads, &Tensors::dlse});
  parts.push_back({StoredTensor::q, head, &Tensors::q});
  parts.push_back({StoredTensor::out, head, &Tensors::out});
  parts.push_back({StoredTensor::dout, head, &Tensors::dout});
  // A tensor of rows of 48 bytes begins at a multiple of 16 after others of such rows, as matrix units want it; after
  // numbers of 8 bytes it may not.
  const auto unit = [](const Part& part) { return part.head_bytes & -part.head_bytes; };
  std::stable_sort(parts.begin(), parts.end(), [&](const Part& a, const Part& b) { return unit(a) > unit(b); });
  return parts;
}

}  // namespace

Index query_block_row_bytes(const Problem& problem, bool dlse) {
  Index bytes = 0;
  for (const Part& part : parts_of(problem, dlse)) bytes += problem.shape.heads * part.head_bytes;
  return bytes;
}

QueryBlock read_queries(const Problem& problem, const Location& location, pattern::StoredRows rows, bool dlse,
                        const core::Buffer& memory, StoredRead& read) {
  QueryBlock block{std::move(rows), {}};
  const Index count = block.rows.count();
  std::byte* const host =
      read.open(location.stored_rows(), memory.data(), count * query_block_row_bytes(problem, dlse));
  Index at = 0;
  for (const Part& part : parts_of(problem, dlse)) {
    const StoredRowsOf from{part.tensor, location.entry(), problem.shape.heads, part.head_bytes};
    read.start(part.tensor, row_pieces(from, block.rows, host + at));
    block.tensors.*part.place = core::Buffer::borrowed(memory.at(at), count * from.row_bytes());
    at += count * from.row_bytes();
  }
  return block;
}

void QueryStream::begin(const QueryRound& round) {
  round_ = &round;
  started_ = 0;
  const Index row_bytes = query_block_row_bytes(problem_, dlse_);
  const auto rows = round.counted(location_.rank()).slots;
  for (std::size_t i = 0; i < slots; ++i) {
    buffers_[i] = {};
    buffers_[i] = core::Buffer("query buffers", rows[i] * row_bytes);
  }
}

/// A buffer is free again when the kernel is done with the read `slots` before.
void QueryStream::start(std::size_t s) {
  for (; started_ < std::min(s + ReadRound::depth, reads()); ++started_) {
    const std::size_t slot = started_ % slots;
    blocks_[slot] = read_queries(problem_, location_, round_->rows(location_.rank(), started_ + 1), dlse_,
                                 buffers_[slot], reads_[slot]);
  }
}

void QueryStream::complete(std::size_t s, core::HopMetrics& metrics) {
  if (s >= reads()) return;
  start(s + 1);  // the block of step s is free
  core::timed_wait(metrics, [&] { reads_[s % slots].wait(); });
  const Index rows = block(s + 1).rows.count();
  metrics.rows_received += rows;
  metrics.bytes_received += rows * query_block_row_bytes(problem_, dlse_);
}

}  // namespace annulus::strategies
