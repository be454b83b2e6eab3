// A tensor's rows moved between memory and a file's bytes, without HDF5. Any one thread may read.
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

/// How a dataset of one to four axes lies in its file, and in memory as the same type: (B, S, heads, numbers), (B, S,
/// heads), a matrix (rows, heads), a vector (rows).
RowLayout layout_of(const InspectedFile& seen, const std::string& dataset);

/// Opens the file of a dataset whose numbers lie there one after another as they are, and makes sure that it is what
/// was seen; nothing for a dataset that only HDF5 can read. Where nobody has looked at how the dataset is stored, HDF5
/// is asked. On this rank alone. Throws Error(failure).
std::optional<RawTensor> raw_tensor(const InspectedFile& seen, const std::string& dataset);

/// Reads pieces, converted where memory has another type. Throws Error(failure) that names the dataset where the file
/// is too short, the call fails, or a number is one that the layout forbids.
void read_rows(const RawTensor& tensor, const std::vector<core::RowPiece>& pieces, core::RowTraffic& traffic);

/// Bytes that go to byte `begin` of the file and those after it.
using VisitBytes = std::function<void(Index begin, const std::byte* bytes, Index count)>;
/// Calls `visit` for the bytes of pieces, converted where the file has another type, in stretches that are as long as
/// memory, or a buffer of some MiB, allows. Throws Error(failure) where a number does not fit the file's type.
void for_each_stretch(const RowLayout& layout, const std::vector<core::RowPiece>& pieces, const VisitBytes& visit);

/// Writes bytes of a tensor, in calls between which the watchdog hears of it: by the thread that calls MPI. Throws
/// Error(failure).
void write_watched(const RawTensor& tensor, Index begin, const std::byte* bytes, Index count,
                   core::RowTraffic& traffic);

}  // namespace annulus::store
