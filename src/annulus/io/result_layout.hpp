// What rank 0 writes into a result's file by HDF5: its layout at the start, its record at the end.
#pragma once

#include <string>
#include <vector>

#include "annulus/io/result_file.hpp"

namespace annulus::io {

/// More than the layout of a file and the bookkeeping of a record take.
inline constexpr Index spare_bytes = Index(1) << 18;

/// Bytes of the tensors, and at least those of the scales of their axes.
Index bytes_of(const std::vector<TensorSpec>& tensors);
/// Bytes of a record's text and numbers.
Index bytes_of(const Record& record);

/// Lays an empty file out: datasets that have their room, dimension scales. Throws Error(failure).
void make_layout(const std::string& path, const std::vector<TensorSpec>& tensors);
/// Adds /run, /provenance and attributes. Throws Error(failure).
void add_record(const std::string& path, const Record& record);

}  // namespace annulus::io
