// What rank 0 writes into a file by HDF5: its layout at the start, its record at the end.
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

/// A dataset to be made: extents (B, S, ...) or (B, H, S, ...), all above 0. Or a matrix or vector of weights.
struct TensorSpec {
  std::string name;
  NumberType type = core::DType::float32;
  std::vector<Index> extents;
  std::string axes;  ///< "batch sequence head dim": a name for each, which one length has in all of the file
  core::AxisOrder order = core::AxisOrder::bshd;
  std::string units = "1";
};
/// (B, S, heads, D) tensor, and (B, S, H) log-sum-exp (or its gradient) of `shape`, with axes in that order or another.
/// Where there are fewer key/value heads than heads, the axis of these is called kv_head.
TensorSpec tensor_spec(const std::string& name, core::DType type, const core::Shape& shape, Index heads,
                       core::AxisOrder order = core::AxisOrder::bshd);
TensorSpec lse_spec(const std::string& name, core::DType input_type, const core::Shape& shape,
                    core::AxisOrder order = core::AxisOrder::bshd);
/// The same tensor of `rows` rows, those of q, along an axis called query: q may have other rows than k and v.
TensorSpec with_query_rows(TensorSpec spec, Index rows);
/// (B, S, H, k): of every row of every head a list of k numbers, along the axis `top`.
TensorSpec top_spec(const std::string& name, NumberType type, const core::Shape& shape, Index k,
                    core::AxisOrder order = core::AxisOrder::bshd);

/// Where the file goes.
struct OutputTarget {
  std::string file;
  bool overwrite = false;
  std::optional<Index> alignment{};  ///< bytes; datasets as large or larger start at multiples of it; empty: auto
  comm::FileHints hints{};           ///< the file is made with them
};
/// The target that a run file names.
OutputTarget target_of(const runfile::OutputSettings& output);

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

/// More than the layout of a file and the bookkeeping of a record take.
inline constexpr Index spare_bytes = Index(1) << 18;

/// Large datasets start at multiples of `step` bytes: file systems cut files into stripes and blocks, and two ranks
/// that write to one wait for each other. Datasets of fewer than `from` bytes stand where there is room, so that small
/// files stay small.
struct Alignment {
  Index from = Index(16) << 20;
  Index step = Index(1) << 20;  ///< the stripe of Lustre, unless it is told otherwise; a multiple of others' blocks

  explicit Alignment(std::optional<Index> asked = {}) {
    if (asked) from = step = *asked;
  }
};

/// Bytes of the tensors, and at least those of the scales of their axes.
Index bytes_of(const std::vector<TensorSpec>& tensors);
/// The same, with the gaps between them.
Index bytes_of(const std::vector<TensorSpec>& tensors, const Alignment& alignment);
/// Bytes of a record's text and numbers.
Index bytes_of(const Record& record);

/// Lays an empty file out: datasets that have their room, dimension scales. Throws Error(failure).
void make_layout(const std::string& path, const std::vector<TensorSpec>& tensors, const Alignment& alignment);
/// Adds /run, /provenance and attributes. Throws Error(failure).
void add_record(const std::string& path, const Record& record);

}  // namespace annulus::store
