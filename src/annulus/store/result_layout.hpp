// The parts of a file that rank 0 writes with HDF5: the layout before a run computes, and the record afterwards.
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

/// A dataset to be made: a tensor (B, S, ...) or (B, H, S, ...), or a weight, which is a matrix or a vector. Extents
/// are above 0.
struct TensorSpec {
  std::string name;
  NumberType type = core::DType::float32;
  std::vector<Index> extents;
  std::string axes;  ///< a word for each axis, "batch sequence head dim"; axes with the same name have the same length
  core::AxisOrder order = core::AxisOrder::bshd;
  std::string units = "1";
};
/// Describes the dataset of a tensor in core::stored_tensor_table: (B, S, heads, D), (B, S, H) for lse, (B, S, H, k)
/// for top_rows. A name that is not in this table gets the axes of q. The axis of the heads of k and v is named kv_head
/// if k has fewer heads than q. `query_rows`: Sq, the number of rows of q; 0 means S. If Sq is not S, the axis of these
/// rows is named query.
TensorSpec tensor_spec(const std::string& name, NumberType type, const core::Shape& shape,
                       core::AxisOrder order = core::AxisOrder::bshd, Index query_rows = 0, Index top_keys = 0);

/// The file that is to be made.
struct OutputTarget {
  std::string file;
  bool overwrite = false;
  std::optional<Index> alignment{};  ///< bytes; datasets of this size or more start at multiples of it; empty: auto
  comm::FileHints hints{};           ///< hints for making the file
};
OutputTarget target_of(const runfile::OutputSettings& output);

/// A dataset of group /run. Only the values on rank 0 are written. With axes "rank" and extents {P}, it has one number
/// for each rank. With axes "rank hop" and extents {P, hops}, it has one number for each rank and hop.
struct Column {
  std::string name;
  std::string units;  ///< as in the CF conventions of netCDF: "s", "bytes", "1" for counts
  std::string about;  ///< text for the axis of a plot: "time in the attention kernel"
  std::string axes;
  std::vector<Index> extents;
  std::vector<double> values;
};

/// All content of a file except its tensors. Only the values on rank 0 are written.
struct Record {
  std::string settings;         ///< resolved run file, for dataset /run/settings; empty: no group /run
  std::vector<Column> columns;  ///< datasets of /run
  std::vector<std::pair<std::string, std::string>> provenance;       ///< attributes of /provenance, in this order
  std::vector<std::pair<std::string, std::string>> attributes = {};  ///< of the file itself: title, program, version
  std::vector<std::pair<std::string, std::string>> decisions = {};   ///< attributes of /run
};

/// This many bytes are always enough for the metadata of a file's layout, and also for the metadata of a record.
inline constexpr Index spare_bytes = Index(1) << 18;

/// Datasets of `from` bytes or more start at multiples of `step` bytes, because file systems cut files into stripes and
/// blocks, and two ranks that write to the same stripe or block wait for each other. Smaller datasets start anywhere,
/// so that small files stay small.
struct Alignment {
  Index from = Index(16) << 20;
  Index step = Index(1) << 20;  ///< Lustre's default stripe, and a multiple of many other systems' blocks

  explicit Alignment(std::optional<Index> asked = {}) {
    if (asked) from = step = *asked;
  }
};

/// Bytes of a tensor's numbers.
Index bytes_of(const TensorSpec& tensor);
/// Bytes of the tensors, plus at least the bytes of their dimension scales and of the gaps of the alignment.
Index bytes_of(const std::vector<TensorSpec>& tensors, const Alignment& alignment);
/// At least the bytes that a record's texts and numbers take in the file.
Index bytes_of(const Record& record);

/// Lays out an empty file: reserves space for the datasets, and makes dimension scales. Throws Error(failure).
void make_layout(const std::string& path, const std::vector<TensorSpec>& tensors, const Alignment& alignment);
/// Adds /run, /provenance and attributes. Throws Error(failure).
void add_record(const std::string& path, const Record& record);

}  // namespace annulus::store
