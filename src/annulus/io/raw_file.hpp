// A tensor's rows moved between memory and a file's bytes, without HDF5: for any one thread.
#pragma once

#include <memory>
#include <vector>

#include "annulus/io/descriptor.hpp"
#include "annulus/io/row_runs.hpp"
#include "annulus/io/seen_file.hpp"

namespace annulus::io {

/// A tensor in an open file.
struct RawTensor {
  std::shared_ptr<const Descriptor> file;
  RowLayout layout;
};

/// Where the numbers of a dataset (B, S, heads, numbers) or (B, S, heads) lie in its file, if they lie there one after
/// another as they are; nothing for chunks, filters, other byte orders, other files. Opens the file twice, once by
/// HDF5, and makes sure that it is what was seen. On this rank alone. Throws Error(failure).
std::optional<RawTensor> raw_tensor(const SeenFile& seen, const std::string& dataset);

/// Reads pieces, converted where memory has another type. Throws Error(failure) that names the dataset where the file
/// is too short, the call fails, or a number is NaN or infinite.
void read_rows(const RawTensor& tensor, const std::vector<core::RowPiece>& pieces, core::RowTraffic& traffic);

/// Writes pieces, converted where the file has another type. Throws Error(failure) where a call fails, or a number does
/// not fit the file's type.
void write_rows(const RawTensor& tensor, const std::vector<core::RowPiece>& pieces, core::RowTraffic& traffic);

}  // namespace annulus::io
