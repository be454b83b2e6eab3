// Reads rows of a store into memory for kernels, and writes rows to a store: lists the pieces to read or write and, if
// kernels run on a device, moves them through host memory.
#pragma once

#include "annulus/core/buffer.hpp"
#include "annulus/core/row_store.hpp"
#include "annulus/pattern/strided_ranges.hpp"

namespace annulus::strategies {

using core::Index;

/// Rows of one tensor and one batch entry in a store. In memory a row has `heads` heads, which are `head_bytes` bytes
/// apart.
struct StoredRowsOf {
  core::StoredTensor tensor = core::StoredTensor::q;
  Index entry = 0;
  Index heads = 1;
  Index head_bytes = 0;

  Index row_bytes() const { return heads * head_bytes; }
};

/// Returns pieces that read all heads of `rows` into `memory`, one row after another. Single rows at equal
/// distances make one piece. Worked example: the rows {[0, 8), [12, 13), [16, 17), [20, 21)} are the pieces 0 1 ... 7
/// and 12 16 20.
std::vector<core::RowPiece> row_pieces(const StoredRowsOf& from, const pattern::StoredRows& rows, void* memory);

/// Returns pieces that read packed rows into `memory`, in the order of packing. Neighbouring heads that need the same
/// rows are read by the same pieces.
std::vector<core::RowPiece> head_pieces(const StoredRowsOf& from, const pattern::PackedRows& packed, void* memory);

/// Reads into memory of the default execution space. Rows for a device's memory are first read into host memory. The
/// destructor waits for reads in flight.
class StoredRead {
 public:
  StoredRead() = default;
  ~StoredRead();
  StoredRead(const StoredRead&) = delete;
  StoredRead& operator=(const StoredRead&) = delete;

  /// Returns the host memory into which the pieces given to start() must read. If the kernels run on the host, this is
  /// `memory` itself; otherwise wait() copies the rows to `memory`. Earlier reads must have ended.
  std::byte* open(core::RowSource& source, void* memory, Index bytes);
  void start(core::StoredTensor tensor, std::vector<core::RowPiece> pieces);
  /// Returns when the rows of all started reads are in `memory`.
  void wait();

 private:
  core::RowSource* source_ = nullptr;
  void* memory_ = nullptr;
  Index bytes_ = 0;
  std::vector<std::byte> staging_;
  std::vector<core::RowSource::Ticket> pending_;
};

/// Writes `rows` to a store. In the buffer `from` these rows begin at byte `first`.
void write_rows(core::RowSink& sink, const StoredRowsOf& to, const pattern::StoredRows& rows, const core::Buffer& from,
                Index first = 0);

}  // namespace annulus::strategies
