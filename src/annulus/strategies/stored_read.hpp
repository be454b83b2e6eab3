// Between a store's rows and memory that kernels read: which pieces to ask for, and host memory on the way to a device.
#pragma once

#include "annulus/core/buffer.hpp"
#include "annulus/core/row_store.hpp"
#include "annulus/pattern/strided_ranges.hpp"

namespace annulus::strategies {

using core::Index;

/// Rows of one tensor and batch entry in a store: `heads` heads, in memory `head_bytes` bytes apart.
struct StoredRowsOf {
  core::StoredTensor tensor = core::StoredTensor::q;
  Index entry = 0;
  Index heads = 1;
  Index head_bytes = 0;

  Index row_bytes() const { return heads * head_bytes; }
};

/// All heads of these rows, one row after another from `memory` on. Rows that stand alone at equal distances are one
/// piece. Worked example: rows {[0, 8), [12, 13), [16, 17), [20, 21)} are 0 1 ... 7 and 12 16 20.
std::vector<core::RowPiece> row_pieces(const StoredRowsOf& from, const pattern::StoredRows& rows, void* memory);

/// Packed rows in the order in which they are packed, from `memory` on. Heads side by side of which the same rows are
/// read share their pieces.
std::vector<core::RowPiece> head_pieces(const StoredRowsOf& from, const pattern::PackedRows& packed, void* memory);

/// Reads into memory of the default execution space, and ends them before it is gone: where that is a device's, by way
/// of host memory.
class StoredRead {
 public:
  StoredRead() = default;
  ~StoredRead();
  StoredRead(const StoredRead&) = delete;
  StoredRead& operator=(const StoredRead&) = delete;

  /// Where pieces for `memory` are to be put, until wait(). Reads of the memory before are done.
  std::byte* open(core::RowSource& source, void* memory, Index bytes);
  void start(core::StoredTensor tensor, std::vector<core::RowPiece> pieces);
  /// Returns when all that was started is in the memory.
  void wait();

 private:
  core::RowSource* source_ = nullptr;
  void* memory_ = nullptr;
  Index bytes_ = 0;
  std::vector<std::byte> staging_;
  std::vector<core::RowSource::Ticket> pending_;
};

/// Writes rows that lie in a buffer from byte `first` on.
void write_rows(core::RowSink& sink, const StoredRowsOf& to, const pattern::StoredRows& rows, const core::Buffer& from,
                Index first = 0);

}  // namespace annulus::strategies
