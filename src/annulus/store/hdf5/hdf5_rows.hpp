// Reads rows of datasets that only HDF5 can read: those that are chunked, compressed, compact, virtual, in other files,
// or in another byte order.
#pragma once

#include <string>
#include <vector>

#include "annulus/store/inspected_file.hpp"
#include "annulus/store/row_runs.hpp"

namespace annulus::store {

struct Hdf5Tensor {
  InspectedFile file;
  std::string dataset;
  RowLayout layout;  ///< its offset has no meaning
};

/// Opens the file on this rank alone and reads pieces of a dataset, in the type that it is stored in. No call waits for
/// another rank, so ranks may read different chunks, or none. Throws Error(failure) with the dataset's name if the file
/// or the dataset has changed, if HDF5 fails, or if the layout forbids a number that is read.
void read_rows(const Hdf5Tensor& tensor, const std::vector<core::RowPiece>& pieces, core::RowTraffic& traffic);

}  // namespace annulus::store
