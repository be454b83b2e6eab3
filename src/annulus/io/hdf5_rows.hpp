// Rows of datasets that only HDF5 can read: chunked, compressed, compact, virtual, in other files, in another byte
// order. Included by .cpp files of this room only.
#pragma once

#include <vector>

#include "annulus/io/hdf5_support.hpp"
#include "annulus/io/row_runs.hpp"
#include "annulus/io/seen_file.hpp"

namespace annulus::io {

struct Hdf5Tensor {
  SeenFile file;
  std::string dataset;
  RowLayout layout;  ///< its offset has no meaning
};

/// Opens the file on this rank alone and reads pieces of a dataset, in the type that it is stored in: no call here waits
/// for another rank, so ranks may read different chunks, or none. Throws Error(failure) that names the dataset where the
/// file or the dataset changed, HDF5 fails, or a number is NaN or infinite and the layout forbids that.
void read_rows(const Hdf5Tensor& tensor, const std::vector<core::RowPiece>& pieces, core::RowTraffic& traffic);

/// Byte of the file at which the numbers of a dataset lie one after another, as this program keeps them in memory;
/// DatasetInfo::by_hdf5 where they do not. `where` names the dataset. Throws Error(failure) where nobody has written a
/// single number of it: HDF5 would return zeros, which look like numbers that somebody computed.
Index offset_of(hid_t dataset, const std::string& where, NumberType type);

}  // namespace annulus::io
