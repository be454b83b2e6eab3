// What rank 0 writes into a result's file by HDF5: its layout at the start, its record at the end.
#pragma once

#include <string>
#include <vector>

#include "annulus/io/result_file.hpp"

namespace annulus::io {

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

}  // namespace annulus::io
