// The bytes of an HDF5 file; the last eight choose what is read from it. Most faults found are libhdf5's own.
#include "read_hdf5.hpp"

namespace annulus::fuzz {

void fuzz_one(std::string_view bytes) {
  if (bytes.size() < 8) return;
  Draw draw(bytes.substr(bytes.size() - 8));
  read_hdf5(write_file("in.h5", bytes), draw);
}

}  // namespace annulus::fuzz
