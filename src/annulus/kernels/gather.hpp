// Collects rows for a message, and adds the rows of a received message to rows of an array. All copies of a list run in
// one launch, except a copy that writes a row which an earlier copy writes, too: it runs in a later launch.
#pragma once

#include <vector>

#include "annulus/core/types.hpp"

namespace annulus::kernels {

/// `count` rows of one array (`from`, from + stride, ...) correspond to rows of another (`to`, to + to_stride, ...).
struct RowCopy {
  core::Index from = 0;
  core::Index stride = 1;
  core::Index count = 0;
  core::Index to = 0;
  core::Index to_stride = 1;
};

/// `parts` parts (such as batch entries) of `held` rows, in the default execution space's memory. row_bytes is even.
struct RowArray {
  void* data = nullptr;
  core::Index parts = 0;
  core::Index held = 0;
  core::Index row_bytes = 0;
};

/// Copies the given rows of every part. Source and target do not overlap. They must have the same parts and row_bytes;
/// otherwise these functions throw Error. Complete on return.
void gather_rows(const std::vector<RowCopy>& copies, const RowArray& source, const RowArray& target);

/// Does the same and sets the source rows to zero. If two copies read a row, the first one moves it, and the second one
/// copies zeros.
void move_rows(const std::vector<RowCopy>& copies, const RowArray& source, const RowArray& target);

/// The opposite of gather_rows(), for numbers of `precision`: adds rows `to` ... of `collected` to rows `from` ... of
/// `target`, copy after copy. A row of `target` that several copies name gets the sum of all. Complete on return.
void add_rows(const std::vector<RowCopy>& copies, const RowArray& collected, const RowArray& target,
              core::Precision precision);

}  // namespace annulus::kernels
