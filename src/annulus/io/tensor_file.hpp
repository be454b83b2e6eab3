// Input tensors in an HDF5 file: looked at by rank 0, read by every rank.
//
// No file stays open between calls. A rank that fails elsewhere can then unwind without meeting a collective close.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "annulus/comm/communicator.hpp"
#include "annulus/core/types.hpp"
#include "annulus/io/settings.hpp"
#include "annulus/pattern/pattern.hpp"

namespace annulus::io {

/// Largest number of bytes one collective call moves per rank: so few that a thousand ranks' pieces, on a disk of 1
/// GB/s, take a small part of the stall timeout. (MPI counts, which are 32-bit, would allow 2 GiB.)
inline constexpr Index max_piece_bytes = Index(1) << 26;

/// Host memory of this rank's rows of a dataset: (B, rows, heads, D) contiguous, the rows of the intervals one after
/// another.
struct RowsIn {
  std::string dataset;
  void* host = nullptr;
};

/// Extents and storage type of a dataset of floats.
struct DatasetInfo {
  std::vector<Index> extents;
  core::DType type = core::DType::float32;
};

class TensorFile {
 public:
  /// Checks the file and its datasets q, k, v (documents; with `gradients` dout and dlse) against each other;
  /// collective. Throws the same Error(failure) on every rank, naming file, dataset, what was found and what was
  /// expected.
  TensorFile(const InputSettings& input, const comm::Communicator& comm, bool gradients = false);

  const core::Shape& shape() const { return shape_; }
  core::DType type() const { return type_; }
  /// {0, n} when input.documents is none.
  const pattern::Documents& documents() const { return documents_; }

  /// Reads this rank's rows (ascending disjoint intervals, none is allowed) of several datasets in their types;
  /// collective: every rank names the same datasets. Bits of 16-bit types arrive untouched. NaN and infinity are errors
  /// that name dataset, global index [b, s, h, d] (the lowest over all ranks) and value.
  void read(const std::vector<RowsIn>& tensors, const std::vector<core::Interval>& rows, const comm::Communicator& comm,
            Index piece_bytes = max_piece_bytes) const;

  /// Reads `rows` of every batch entry and head of one dataset on this rank alone. No check of the values.
  void read_alone(const RowsIn& tensor, core::Interval rows) const;

 private:
  std::string path_;
  std::map<std::string, DatasetInfo> tensors_;  // by their names
  core::Shape shape_;
  core::DType type_ = core::DType::float32;
  pattern::Documents documents_;
};

/// What a dataset of floats in some HDF5 file is; looked at on this rank alone. Throws Error(failure).
DatasetInfo look_at_dataset(const std::string& path, const std::string& name);

/// The text in a scalar dataset; read on this rank alone. Throws Error(failure).
std::string read_text_dataset(const std::string& path, const std::string& name);

}  // namespace annulus::io
