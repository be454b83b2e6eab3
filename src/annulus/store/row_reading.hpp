// This rank's rows of datasets of an input file, read at once.
#pragma once

#include <string>
#include <vector>

#include "annulus/core/row_store.hpp"
#include "annulus/store/inspected_file.hpp"
#include "annulus/store/matrix_part.hpp"
#include "annulus/store/row_runs.hpp"

namespace annulus::store {

/// Host memory of rows of a dataset: (B, rows, heads, D) contiguous, the rows of the intervals one after another.
struct RowsIn {
  std::string dataset;
  void* host = nullptr;
};

/// Rows of all batch entries, and all or some heads of each, that lie in memory as (batch, rows, heads, numbers): entry
/// by entry, interval by interval. `number_bytes` are those of a number in memory, where heads are `apart` bytes from
/// each other; 0: one after another.
/// Worked example: 2 entries, rows {[4, 6), [10, 13)}, heads [0, 2): four pieces, of rows 4-5, 10-12 of entry 0 and the
/// same of entry 1.
std::vector<core::RowPiece> pieces_of(core::Interval batch, const std::vector<core::Interval>& rows,
                                      core::Interval heads, Index head_numbers, Index number_bytes, const void* memory,
                                      Index apart = 0);

/// Reads rows of a dataset in its type. Numbers that are not wanted are errors. On this rank alone, whatever other
/// ranks read. Throws Error(failure) that names the dataset, the index as in the file, and the value; also where the
/// file is no more what was seen.
void read_rows(const InspectedFile& file, const RowsIn& tensor, const std::vector<core::Interval>& rows,
               Wanted wanted = Wanted::finite_numbers);

/// Reads a part of a matrix, or of a vector (one column), in its type. Throws as read_rows().
void read_part(const InspectedFile& file, const MatrixPart& part, Wanted wanted = Wanted::finite_numbers);

/// Rank 0 finds out where the numbers of all datasets lie and which of them stand for missing ones, and tells the
/// others, and which other files these datasets and the `small` ones, which have been read, are made of; collective.
/// Throws the same Error(failure) on every rank, also where a dataset was never written.
void look_at_storage(InspectedFile& file, const std::vector<std::string>& small, const comm::Communicator& comm);

}  // namespace annulus::store
