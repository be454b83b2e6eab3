// HDF5 files this program makes. They appear under their final name complete or not at all (new_file.hpp).
//
// Rank 0 alone makes the layout, before anything is computed, and adds the records at the end; the tensors' numbers are
// written collectively. Between calls HDF5 has no file open.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "annulus/comm/communicator.hpp"
#include "annulus/core/types.hpp"
#include "annulus/io/new_file.hpp"
#include "annulus/io/part_transfer.hpp"
#include "annulus/io/settings.hpp"
#include "annulus/io/tensor_file.hpp"

namespace annulus::io {

/// A dataset to be made: extents (B, S, ...) or (B, H, S, ...), all above 0. Or a matrix or vector of weights.
struct TensorSpec {
  std::string name;
  NumberType type = core::DType::float32;
  std::vector<Index> extents;
  std::string axes;  ///< "batch sequence head dim": a name for each, which one length has in all of the file
  AxisOrder order = AxisOrder::bshd;
  std::string units = "1";
};
/// (B, S, heads, D) tensor, and (B, S, H) log-sum-exp (or its gradient) of `shape`, with axes in that order or another.
/// Where there are fewer key/value heads than heads, the axis of these is called kv_head.
TensorSpec tensor_spec(const std::string& name, core::DType type, const core::Shape& shape, Index heads,
                       AxisOrder order = AxisOrder::bshd);
TensorSpec lse_spec(const std::string& name, core::DType input_type, const core::Shape& shape,
                    AxisOrder order = AxisOrder::bshd);
/// (B, S, H, k): of every row of every head a list of k numbers, along the axis `top`.
TensorSpec top_spec(const std::string& name, NumberType type, const core::Shape& shape, Index k,
                    AxisOrder order = AxisOrder::bshd);

/// Where the file goes.
struct OutputLocation {
  std::string file;
  bool overwrite = false;
  std::optional<Index> alignment{};  ///< bytes; datasets as large or larger start at multiples of it; empty: auto
  comm::FileHints hints{};           ///< the file is made, and opened, with them
};
/// Of a run file.
OutputLocation location_of(const OutputSettings& output);

/// Host memory with this rank's rows of a dataset, (B, rows, heads, ...) contiguous.
struct RowsOut {
  std::string dataset;
  const void* host = nullptr;
  std::optional<NumberType> type{};  ///< of the numbers there; empty: the dataset's
};

/// A named array of /run; rank 0's values count. Axes "rank", extents {P}: one number per rank; "rank hop", {P, hops}:
/// one per rank and hop.
struct Column {
  std::string name;
  std::string units;  ///< as CF has them: "s", "bytes", "1" of what is counted
  std::string about;  ///< what it is, for a plot's axis: "time in the attention kernel"
  std::string axes;
  std::vector<Index> extents;
  std::vector<double> values;
};

/// What stands beside the tensors; rank 0's counts.
struct Record {
  std::string settings;         ///< resolved run file, dataset /run/settings; empty: no group /run
  std::vector<Column> columns;  ///< datasets of /run
  std::vector<std::pair<std::string, std::string>> provenance;       ///< attributes of /provenance, in this order
  std::vector<std::pair<std::string, std::string>> attributes = {};  ///< of the file itself, functions of its input
  std::vector<std::pair<std::string, std::string>> decisions = {};   ///< attributes of /run
};

class ResultFile {
 public:
  /// Makes the temporary file with its datasets; collective. Throws the same Error(failure) on every rank when the
  /// folder is missing or not writable, the file exists and may not be overwritten or is no regular file, another run
  /// makes it without overwriting, or the space is not there.
  ResultFile(const OutputLocation& location, std::vector<TensorSpec> tensors, const comm::Communicator& comm);
  /// Without finish(): removes the temporary file. Not collective.
  ~ResultFile();
  ResultFile(const ResultFile&) = delete;
  ResultFile& operator=(const ResultFile&) = delete;

  /// Writes this rank's rows (ascending disjoint intervals, none is allowed) of several datasets; collective: every
  /// rank names the same datasets. Throws the same Error(failure) on every rank.
  void write(const std::vector<RowsOut>& tensors, const std::vector<core::Interval>& rows,
             Index piece_bytes = max_piece_bytes) const;

  /// Writes this rank's parts of matrices and vectors; collective: every rank names the same datasets, and each number
  /// is written by one rank. Throws as write().
  void write_parts(const std::vector<MatrixPart>& parts) const;

  /// Adds the record, flushes to disk and gives the file its final name; collective. Throws as write(); when the final
  /// name cannot be had, the error names the file that keeps the result.
  void finish(const Record& record);

 private:
  const UnfinishedFile& unfinished() const;

  /// The file under its temporary name, for the functions that move numbers.
  SeenFile target() const;

  std::vector<TensorSpec> tensors_;
  comm::FileHints hints_;
  const comm::Communicator& comm_;
  std::optional<NewFile> file_;         // on rank 0
  std::optional<UnfinishedFile> seen_;  // the same on the others
};

}  // namespace annulus::io
