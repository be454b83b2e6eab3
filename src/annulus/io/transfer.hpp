// Rows between host memory and a dataset, collectively.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "annulus/comm/communicator.hpp"
#include "annulus/core/types.hpp"
#include "annulus/io/pieces.hpp"
#include "annulus/io/seen_file.hpp"

namespace annulus::io {

enum class Direction { read, write };

/// Host memory of this rank's rows of a dataset: (B, rows, heads, D) contiguous, the rows of the intervals one after
/// another.
struct RowsIn {
  std::string dataset;
  void* host = nullptr;
  std::optional<NumberType> type{};  ///< of the numbers there, when they are written; empty: the dataset's
};

/// Opens the file on all ranks, moves this rank's rows of each dataset, closes the file; collective. Host memory,
/// (B, rows, heads, ...) whatever the order of axes in the file, is only read from when writing; its numbers are then
/// turned into those of the dataset, which must be able to hold them. A file that is read must be what was seen, one
/// that is written need not. Throws the same Error(failure) on every rank.
void transfer_rows(const SeenFile& file, Direction direction, const std::vector<RowsIn>& tensors,
                   const std::vector<core::Interval>& rows, const comm::Communicator& comm, Index piece_bytes);

/// Reads rows of one dataset on this rank alone, into (B, rows, ...).
void read_rows_alone(const SeenFile& file, const RowsIn& tensor, core::Interval rows);

}  // namespace annulus::io
