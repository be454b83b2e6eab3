// Moves rows of a tensor between memory and a file without HDF5. Any thread may read, but only one at a time.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "annulus/store/files/descriptor.hpp"
#include "annulus/store/inspected_file.hpp"
#include "annulus/store/row_runs.hpp"

namespace annulus::store {

/// A tensor in an open file.
struct RawTensor {
  std::shared_ptr<const Descriptor> file;
  RowLayout layout;
};

/// Returns the layout of a dataset with one to four axes: (B, S, heads, numbers), (B, S, heads), (rows, heads) for a
/// matrix, whose columns count as heads, or (rows) for a vector. The type in memory is the type in the file.
RowLayout layout_of(const InspectedFile& seen, const std::string& dataset);

/// Opens the file of a dataset whose bytes in the file are contiguous and the same as in memory, and checks that the
/// file has not changed. Empty if only HDF5 can read the dataset. If `seen` lacks the dataset's offset, asks HDF5.
/// Not collective. Throws Error(failure).
std::optional<RawTensor> raw_tensor(const InspectedFile& seen, const std::string& dataset);

/// Reads pieces, and converts them if layout.memory is another type. Throws Error(failure) with the dataset's name if
/// the file is too short, a call fails, or the layout does not allow a number.
void read_rows(const RawTensor& tensor, const std::vector<core::RowPiece>& pieces, core::RowTraffic& traffic);

/// A function that gets `count` bytes, which belong at byte `begin` of the file.
using VisitBytes = std::function<void(Index begin, const std::byte* bytes, Index count)>;
/// Calls `visit` with the bytes of the pieces, converted to the file's type. The bytes of one call are contiguous in
/// the file. If bytes have to be copied to a buffer first, a call has at most 4 MiB and one more run (row_runs.hpp).
/// Throws Error(failure) if a number does not fit the file's type.
void for_each_stretch(const RowLayout& layout, const std::vector<core::RowPiece>& pieces, const VisitBytes& visit);

/// Writes bytes of a tensor in several calls, and reports progress to the watchdog after each. Call it on the thread
/// that calls MPI. Throws Error(failure).
void write_watched(const RawTensor& tensor, Index begin, const std::byte* bytes, Index count,
                   core::RowTraffic& traffic);

}  // namespace annulus::store
