// Cuts the keys of work items into parts. Without parts, a forward task has all keys that its query rows see. Few query
// rows with many keys, such as 64 latents that read 200,000 rows, then make fewer tasks than a node has threads. Parts
// make more tasks. Each part has a softmax state for each query row, and merge_states() merges the states of a row
// (split-KV of FlashDecoding, Dao et al. 2023).
//
// Example: rows 0 ... 63 of one head, keys 0 ... 39,999, 4 parts. Row i of part p is row 64 p + i of the parts' states
// and of a copy of q; part 0 sees the keys 30,000 ... 39,999, part 3 the keys 0 ... 9,999.
#pragma once

#include <vector>

#include "annulus/kernels/attention.hpp"
#include "annulus/kernels/backward.hpp"

namespace annulus::kernels::host {

/// See key_parts() of attention.hpp. Returns 1 if more than a quarter of a large node's threads
/// (tuning::host_wanted_tasks) have a task without parts. Otherwise returns enough parts for all these threads, but not
/// so many that parts have few keys or take much memory.
core::Index key_parts(const core::Shape& shape, core::Index rows);
/// Returns into how many parts to cut the keys of a list's items: at most `most`, and fewer if parts of the item with
/// the most keys would be short.
core::Index key_parts(const core::WorkList& work, core::Index most);

/// Returns `work` with the keys of each item cut into `parts` parts. Query row i of part p becomes row p * rows + i.
core::WorkList in_parts(const core::WorkList& work, core::Index rows, core::Index parts);

/// Returns a copy of a tensor of query rows for the list of in_parts(): (B, parts * rows, H, dim), where the rows are
/// repeated `parts` times.
core::Buffer repeated(const core::TensorView& from, const core::Shape& shape, core::Index dim, core::Index rows,
                      core::Index parts);

/// Operands of attend_backward() for the list of in_parts(), with a dq for each part, which is zero at first.
struct BackwardParts {
  BackwardParts(const core::Shape& shape, core::Index rows, core::Index parts, const BackwardOperands& operands,
                const GradientViews& gradients);
  /// Adds the dq of all parts to `dq`, part after part.
  void add_to(const core::TensorView& dq) const;

  core::Shape shape;
  core::Index rows;  // query rows of one part
  core::Index parts;
  std::vector<core::Buffer> buffers;
  BackwardOperands operands;
  GradientViews gradients;
};

}  // namespace annulus::kernels::host
