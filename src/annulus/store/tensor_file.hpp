// q, k and v in an HDF5 file, and single pieces of other such files.
#pragma once

#include "annulus/runfile/settings.hpp"
#include "annulus/store/input_file.hpp"

namespace annulus::store {

class TensorFile : public InputFile {
 public:
  /// Checks the file and its datasets q, k, v (documents, sink; with `gradients` dout and dlse) against each other;
  /// collective. Throws the same Error(failure) on every rank, naming file, dataset, what was found and what was
  /// expected.
  TensorFile(const runfile::InputSettings& input, const comm::Communicator& comm, bool gradients = false);
};

/// What a dataset of numbers in some HDF5 file is; looked at on this rank alone. Throws Error(failure).
DatasetInfo look_at_dataset(const std::string& path, const std::string& name);

/// The text in an attribute of the file itself, nothing where there is none; read on this rank alone. Throws
/// Error(failure).
std::optional<std::string> read_text_attribute(const std::string& path, const std::string& name);

/// The text in a scalar dataset; read on this rank alone. Throws Error(failure).
std::string read_text_dataset(const std::string& path, const std::string& name);

}  // namespace annulus::store
