// Rectangular parts of matrices and vectors between host memory and a file, collectively: weights, of which
// every rank keeps a part.
#pragma once

#include <string>
#include <vector>

#include "annulus/io/transfer.hpp"

namespace annulus::io {

/// Rows x columns of a dataset with two axes; one with one axis of n numbers is n rows of one column.
struct Rectangle {
  core::Interval rows;
  core::Interval columns;

  Index count() const { return rows.size() * columns.size(); }
};

/// What moves, and the memory it lies in: `kept` of the dataset, row-major.
struct MatrixPart {
  std::string dataset;
  Rectangle part;  ///< inside `kept`; empty: this rank moves nothing
  Rectangle kept;
  void* host = nullptr;
  std::optional<NumberType> type{};  ///< of the numbers there, when they are written; empty: the dataset's
};

/// Opens the file on all ranks, moves every rank's parts, closes the file; collective: every rank names the same
/// datasets. Host memory is only read from when writing; its numbers are then turned into those of the dataset, which
/// must be able to hold them. A file that is read must be what was seen, one that is written need not. Throws the same
/// Error(failure) on every rank.
void transfer_parts(const SeenFile& file, Direction direction, const std::vector<MatrixPart>& parts,
                    const comm::Communicator& comm, Index piece_bytes = max_piece_bytes);

}  // namespace annulus::io
