// Tasks own query rows, so few query rows against many keys (64 latents that read 200,000 rows) make fewer tasks than a
// node has threads. Then the keys are cut into parts. Each part of an item has states of its own, as if it belonged to
// other rows, and merge_states() puts them together (split-KV of FlashDecoding, Dao et al. 2023).
//
// Example: rows 0 ... 63 of one head, keys 0 ... 19,999, 4 parts. Row i of part p is row 64 p + i of the parts' states
// and of a copy of q; part 0 sees the keys 15,000 ... 19,999, part 3 the keys 0 ... 4,999.
#pragma once

#include <vector>

#include "annulus/kernels/attention.hpp"
#include "annulus/kernels/backward.hpp"

namespace annulus::kernels::host {

/// See key_parts() of attention.hpp: enough to make tasks for a large node, but so that no part has few keys, and that
/// all parts together take little memory.
core::Index key_parts(const core::Shape& shape, core::Index rows);
/// Into how many parts to cut a list's keys if `most` are allowed: fewer if no item has that many keys.
core::Index key_parts(const core::WorkList& work, core::Index most);

/// The list with the keys of each item in `parts`, for states of parts * rows rows.
core::WorkList in_parts(const core::WorkList& work, core::Index rows, core::Index parts);

/// Numbers of query rows as the list of in_parts() sees them: (B, rows, H, dim), `parts` times in turn.
core::Buffer repeated(const core::TensorView& from, const core::Shape& shape, core::Index dim, core::Index rows,
                      core::Index parts);

/// Operands of attend_backward() as the list of in_parts() sees them, and the dq of each part, zero at first.
struct BackwardParts {
  BackwardParts(const core::Shape& shape, core::Index rows, core::Index parts, const BackwardOperands& operands,
                const GradientViews& gradients);
  /// Adds what all parts give to dq, part after part.
  void add_to(const core::TensorView& dq) const;

  core::Shape shape;
  core::Index rows;  // of one part
  core::Index parts;
  std::vector<core::Buffer> buffers;
  BackwardOperands operands;
  GradientViews gradients;
};

}  // namespace annulus::kernels::host
