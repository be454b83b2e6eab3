// What rank 0 writes to a file with HDF5: the layout at the start, and the record at the end.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "annulus/comm/file_hints.hpp"
#include "annulus/core/axes.hpp"
#include "annulus/core/types.hpp"
#include "annulus/runfile/settings.hpp"
#include "annulus/store/number_type.hpp"

namespace annulus::store {

using core::Index;

/// A dataset to be made: a tensor (B, S, ...) or (B, H, S, ...), or weights as matrix or vector. Extents are above 0.
struct TensorSpec {
  std::string name;
  NumberType type = core::DType::float32;
  std::vector<Index> extents;
  std::string axes;  ///< a name for each, "batch sequence head dim"; in one file a name has one length
  core::AxisOrder order = core::AxisOrder::bshd;
  std::string units = "1";
};
/// A tensor of core::stored_tensor_table, which has its axes: (B, S, heads, D), or (B, S, H) of an lse, or (B, S, H, k)
/// of top_rows. A tensor of another name is like q. If there are fewer key/value heads than heads, their axis has the
/// name kv_head. `query_rows`: rows of q, along an axis `query` if they are not as many as those of k; 0: they are.
TensorSpec tensor_spec(const std::string& name, NumberType type, const core::Shape& shape,
                       core::AxisOrder order = core::AxisOrder::bshd, Index query_rows = 0, Index top_keys = 0);

/// The file that is to be made.
struct OutputTarget {
  std::string file;
  bool overwrite = false;
  std::optional<Index> alignment{};  ///< bytes; datasets that large start at multiples of it; empty: automatic
  comm::FileHints hints{};           ///< hints for making the file
};
/// The target for a run file.
OutputTarget target_of(const runfile::OutputSettings& output);

/// A named array of /run, with the values of rank 0. Axes "rank" and extents {P}: one number for each rank. Axes "rank
/// hop" and {P, hops}: one for each rank and hop.
struct Column {
  std::string name;
  std::string units;  ///< in the words of CF: "s", "bytes", "1" for counts
  std::string about;  ///< describes it for the axis of a plot: "time in the attention kernel"
  std::string axes;
  std::vector<Index> extents;
  std::vector<double> values;
};

/// What a file contains apart from tensors; the values are those of rank 0.
struct Record {
  std::string settings;         ///< resolved run file, dataset /run/settings; empty: no group /run
  std::vector<Column> columns;  ///< datasets of /run
  std::vector<std::pair<std::string, std::string>> provenance;       ///< attributes of /provenance, in this order
  std::vector<std::pair<std::string, std::string>> attributes = {};  ///< of the file; from its input only
  std::vector<std::pair<std::string, std::string>> decisions = {};   ///< attributes of /run
};

/// More bytes than a file's layout and the overhead of a record need.
inline constexpr Index spare_bytes = Index(1) << 18;

/// Large datasets start at multiples of `step` bytes. File systems cut files into stripes and blocks, and two ranks
/// that write to one of them wait for each other. Datasets with fewer than `from` bytes are placed anywhere, so that
/// small files stay small.
struct Alignment {
  Index from = Index(16) << 20;
  Index step = Index(1) << 20;  ///< Lustre's default stripe, and a multiple of other systems' blocks

  explicit Alignment(std::optional<Index> asked = {}) {
    if (asked) from = step = *asked;
  }
};

/// Bytes of the tensors plus at least those of their scales.
Index bytes_of(const std::vector<TensorSpec>& tensors);
/// The same, including the gaps of the alignment.
Index bytes_of(const std::vector<TensorSpec>& tensors, const Alignment& alignment);
/// Bytes of a record's text and numbers.
Index bytes_of(const Record& record);

/// Lays out an empty file: reserves space for the datasets, and makes dimension scales. Throws Error(failure).
void make_layout(const std::string& path, const std::vector<TensorSpec>& tensors, const Alignment& alignment);
/// Adds /run, /provenance and attributes. Throws Error(failure).
void add_record(const std::string& path, const Record& record);

}  // namespace annulus::store
