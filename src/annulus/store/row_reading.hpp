// Reads this rank's rows of datasets in an input file.
#pragma once

#include <string>
#include <vector>

#include "annulus/core/row_store.hpp"
#include "annulus/runfile/settings.hpp"
#include "annulus/store/inspected_file.hpp"
#include "annulus/store/matrix_part.hpp"
#include "annulus/store/row_runs.hpp"

namespace annulus::store {

/// Host memory for rows of a dataset: (B, rows, heads, D), contiguous. The rows of one interval follow those of the
/// interval before.
struct RowsIn {
  std::string dataset;
  void* host = nullptr;
};

/// The pieces that make up these rows and heads of the entries `batch`. In memory they are (batch, rows, heads,
/// numbers), entry by entry, and interval by interval inside an entry. `number_bytes`: bytes of a number in memory.
/// `apart`: bytes from the start of one head to the next; 0: heads are contiguous. Worked example: 2 entries, rows
/// {[4, 6), [10, 13)} and heads [0, 2) give four pieces: rows 4-5 of entry 0, rows 10-12 of entry 0, rows 4-5 of entry
/// 1, rows 10-12 of entry 1.
std::vector<core::RowPiece> pieces_of(core::Interval batch, const std::vector<core::Interval>& rows,
                                      core::Interval heads, Index head_numbers, Index number_bytes, const void* memory,
                                      Index apart = 0);

/// Reads rows of a dataset in its type. Not collective: other ranks may read other rows, or none. Throws Error(failure)
/// if `wanted` does not allow a number; the message has the dataset's name, the index in the file, and the value. Also
/// throws if the file has changed.
void read_rows(const InspectedFile& file, const RowsIn& tensor, const std::vector<core::Interval>& rows,
               Wanted wanted = Wanted::finite_numbers);

/// Reads a part of a matrix or of a vector (one column) in its type. Throws the same errors as read_rows().
void read_part(const InspectedFile& file, const MatrixPart& part, Wanted wanted = Wanted::finite_numbers);

/// Rank 0 finds where the numbers of all datasets in `file` are, which numbers mean "missing", and which other files
/// hold parts of these datasets, or of the small datasets of `input` (sink, documents, lengths, coordinates). Rank 0
/// also warns of datasets that were written only in part. All ranks note the result in `file`. Collective. Throws the
/// same Error(failure) on every rank, for example if a dataset was never written.
void look_at_storage(InspectedFile& file, const runfile::InputSettings& input, const comm::Communicator& comm);

/// Returns those filters of the file's datasets that are plugins: programs of third parties, which are not part of
/// HDF5. Each is named once, as in the file: "32015 (zstd)". Call it on one rank. Throws Error(failure).
std::vector<std::string> filter_plugins_of(const InspectedFile& file);

}  // namespace annulus::store
