// HDF5 files that all ranks have open at the same time. Included by .cpp files of this room only.
//
// What can fail on one rank alone is checked before the collective call and agreed on: a rank that does not come to the
// call would leave the others waiting in it.
#pragma once

#include <string>

#include "annulus/comm/communicator.hpp"
#include "annulus/io/hdf5_support.hpp"
#include "annulus/io/transfer.hpp"

namespace annulus::io {

// The first and the last are collective and throw the same Error(failure) on every rank.
FileId open_together(const std::string& path, Direction direction, const comm::Communicator& comm);
PropertyId transfer_together();
void close_together(FileId file, const std::string& path, const comm::Communicator& comm);

}  // namespace annulus::io
