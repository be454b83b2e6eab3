// Input tensors in an HDF5 file: looked at by rank 0, read by every rank.
//
// No file stays open between calls. A rank that fails elsewhere can then unwind without meeting a collective close.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "annulus/comm/communicator.hpp"
#include "annulus/core/types.hpp"
#include "annulus/io/settings.hpp"
#include "annulus/io/transfer.hpp"
#include "annulus/pattern/pattern.hpp"

namespace annulus::io {

class TensorFile {
 public:
  /// Checks the file and its datasets q, k, v (documents; with `gradients` dout and dlse) against each other;
  /// collective. Throws the same Error(failure) on every rank, naming file, dataset, what was found and what was
  /// expected.
  TensorFile(const InputSettings& input, const comm::Communicator& comm, bool gradients = false);

  const core::Shape& shape() const { return shape_; }
  core::DType type() const { return type_; }
  /// As input.axes says, or the file; else bshd.
  AxisOrder order() const { return order_; }
  /// {0, n} when input.documents is none.
  const pattern::Documents& documents() const { return documents_; }

  /// Reads this rank's rows (ascending disjoint intervals, none is allowed) of several datasets in their types;
  /// collective: every rank names the same datasets. Bits of 16-bit types arrive untouched. NaN and infinity are errors
  /// that name dataset, global index as in the file (the lowest [b, s, h, d] over all ranks) and value; so is a file
  /// that is no more the one that was checked.
  void read(const std::vector<RowsIn>& tensors, const std::vector<core::Interval>& rows, const comm::Communicator& comm,
            Index piece_bytes = max_piece_bytes) const;

  /// What later openings are held against.
  const SeenFile& seen() const { return file_; }

 private:
  SeenFile file_;
  core::Shape shape_;
  core::DType type_ = core::DType::float32;
  AxisOrder order_ = AxisOrder::bshd;
  pattern::Documents documents_;
};

/// What a dataset of floats in some HDF5 file is; looked at on this rank alone. Throws Error(failure).
DatasetInfo look_at_dataset(const std::string& path, const std::string& name);

/// The text in an attribute of the file itself, nothing where there is none; read on this rank alone. Throws
/// Error(failure).
std::optional<std::string> read_text_attribute(const std::string& path, const std::string& name);

/// The text in a scalar dataset; read on this rank alone. Throws Error(failure).
std::string read_text_dataset(const std::string& path, const std::string& name);

}  // namespace annulus::io
