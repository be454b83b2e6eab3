// Rotary position embedding: rotates pairs of numbers in every head's vector by angles that grow with the position.
#pragma once

#include "annulus/core/tensor_view.hpp"
#include "annulus/pattern/partition.hpp"

namespace annulus::layer {

using core::Index;

enum class Direction { forward, back };

/// Rotates in place the pairs of numbers (d, d + D/2), d < D/2, of every head of `tensor` (B, rows, heads, D) by the
/// angle p base^(-2 d / D). p is the row's position in the whole sequence, counted from 0, not from its document's
/// start. Rotating back is the gradient of rotating forward. Angles are float64, and do not depend on the rank that
/// holds the row. D must be even. Returns when the work is done.
/// Worked example: D = 2, base 10000: the pair (1, 0) of row 3 becomes (cos 3, sin 3).
void rope(const core::TensorView& tensor, Index batch, const pattern::StoredRows& rows, Index heads, Index head_dim,
          double base, Direction direction);

}  // namespace annulus::layer
