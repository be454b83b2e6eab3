// Reads an HDF5 file made of drawn objects (hdf5_file.hpp).
#include "hdf5_file.hpp"
#include "read_hdf5.hpp"

namespace annulus::fuzz {

void fuzz_one(std::string_view bytes) {
  Draw draw(bytes);
  const std::string path = make_hdf5_file(draw);
  read_hdf5(path, draw);
}

}  // namespace annulus::fuzz
