// Collects rows for a message, and adds the rows of a received message to rows of an array. A copy that writes the same
// row as an earlier copy of its list runs in a later launch. All other copies of a list run in one launch.
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

/// An array of `parts` parts (such as batch entries) of `held` rows of row_bytes bytes each, in the default execution
/// space's memory. row_bytes is even.
struct RowArray {
  void* data = nullptr;
  core::Index parts = 0;
  core::Index held = 0;
  core::Index row_bytes = 0;
};

/// Copies rows `from`, from + stride, ... of `source` to rows `to`, to + to_stride, ... of `target`, in every part. The
/// two arrays must not overlap. All functions here throw Error if their arrays differ in `parts` or row_bytes. Complete
/// on return.
void gather_rows(const std::vector<RowCopy>& copies, const RowArray& source, const RowArray& target);

/// Does the same as gather_rows(), and sets the source rows to zero. If two copies read the same row, the first copy
/// moves it, and the second copy writes zeros.
void move_rows(const std::vector<RowCopy>& copies, const RowArray& source, const RowArray& target);

/// The opposite of gather_rows(), for numbers of type_of(precision): adds rows `to`, ... of `collected` to rows `from`,
/// ... of `target`. If several copies name a row of `target`, they add to it in the order of the list. Complete on
/// return.
void add_rows(const std::vector<RowCopy>& copies, const RowArray& collected, const RowArray& target,
              core::Precision precision);

}  // namespace annulus::kernels
