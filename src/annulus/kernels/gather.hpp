// Collecting rows for a message.
#pragma once

#include <vector>

#include "annulus/core/types.hpp"

namespace annulus::kernels {

/// Source rows from, from + stride, ... (count of them) become target rows to, to + 1, ...
struct RowCopy {
  core::Index from = 0;
  core::Index stride = 1;
  core::Index count = 0;
  core::Index to = 0;
};

/// An array (parts, held, row_bytes) in the default execution space's memory; row_bytes is a multiple of 2.
struct RowArray {
  void* data = nullptr;
  core::Index parts = 0;
  core::Index held = 0;
  core::Index row_bytes = 0;
};

/// Copies the named rows of every part. Source and target have the same parts and row_bytes and do not overlap.
/// Complete on return.
void gather_rows(const std::vector<RowCopy>& copies, const RowArray& source, const RowArray& target);

}  // namespace annulus::kernels
