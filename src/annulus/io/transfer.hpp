// Rows between host memory and a dataset, by all ranks together.
#pragma once

#include <string>
#include <vector>

#include "annulus/comm/communicator.hpp"
#include "annulus/core/types.hpp"
#include "annulus/io/tensor_file.hpp"

namespace annulus::io {

/// Rows [rows.begin, rows.end) of batch entries [batch.begin, batch.end), kept at row `memory_row` of the host memory.
struct Box {
  core::Interval batch;
  core::Interval rows;
  Index memory_row = 0;
  bool operator==(const Box&) const = default;
};

/// Cuts rows (ascending, disjoint) of `batch` batch entries into pieces of at most `piece_bytes` bytes (one row of one
/// entry at least) and at most 256 boxes; one piece is one collective call.
/// Worked example: batch 2, rows 0..9, 100 bytes per row and entry, pieces of 900 bytes: rows 0..3, 4..7, 8..9 of both
/// entries.
std::vector<std::vector<Box>> cut_into_pieces(const std::vector<core::Interval>& rows, Index batch, Index row_bytes,
                                              Index piece_bytes);

enum class Direction { read, write };

/// Opens the file on all ranks, moves this rank's rows of each dataset, closes the file; collective. Bytes are
/// converted between byte orders only; host memory is only read from when writing. Throws the same Error(failure) on
/// every rank.
void transfer_rows(const std::string& path, Direction direction, const std::vector<RowsIn>& tensors,
                   const std::vector<core::Interval>& rows, const comm::Communicator& comm, Index piece_bytes);

/// Reads rows of one dataset on this rank alone, into (B, rows, ...).
void read_rows_alone(const std::string& path, const RowsIn& tensor, core::Interval rows);

}  // namespace annulus::io
