// A file of tensors as it was when it was looked at first. Every later opening is held against that: files are opened
// anew for each group of datasets, hours apart, and somebody may have put another one in their place.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "annulus/core/types.hpp"
#include "annulus/io/axes.hpp"
#include "annulus/io/file_identity.hpp"

namespace annulus::io {

/// Extents and storage type of a dataset of floats, and what the axes of a tensor are.
struct DatasetInfo {
  std::vector<Index> extents;  ///< as in the file
  core::DType type = core::DType::float32;
  AxisOrder order = AxisOrder::bshd;
};

struct SeenFile {
  std::string path;
  FileIdentity identity;                        ///< as this rank finds it
  std::map<std::string, DatasetInfo> datasets;  ///< those that are read, by their names

  /// An internal error for a dataset that is not among them.
  const DatasetInfo& at(const std::string& dataset) const {
    const auto found = datasets.find(dataset);
    core::require(found != datasets.end(), [&] { return path + ": nobody has looked at dataset " + dataset; });
    return found->second;
  }
};

/// Runs `read`, which opens the file, and makes sure that it was the file seen before, from before the opening to after
/// the last read. Throws Error(failure) when it changed, also where a change made `read` fail. On this rank alone.
template <class Read>
void while_unchanged(const SeenFile& file, Read&& read) {
  check_unchanged(file.path, file.identity);
  try {
    read();
  } catch (const core::Error&) {
    check_unchanged(file.path, file.identity);
    throw;
  }
  check_unchanged(file.path, file.identity);
}

/// The same by all ranks together: `read` throws AgreedErrors only; collective.
template <class Read>
void while_unchanged(const SeenFile& file, const comm::Communicator& comm, Read&& read) {
  const auto check = [&] { comm::agree(comm, [&] { check_unchanged(file.path, file.identity); }); };
  check();
  try {
    read();
  } catch (const comm::AgreedError&) {  // on every rank
    check();
    throw;
  }
  check();
}

}  // namespace annulus::io
