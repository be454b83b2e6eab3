// Rotary position embedding: every head's vector is turned pair by pair, by angles that grow with the row's position.
#pragma once

#include "annulus/core/tensor_view.hpp"
#include "annulus/pattern/partition.hpp"

namespace annulus::layer {

using core::Index;

/// Which way rope() turns.
enum class Turn { forward, back };

/// Turns, in place, the pairs of numbers (d, d + D/2) of every head of `tensor` (B, rows, heads, D) by the angle
/// x base^(-2 d / D), where x is the row's number in the whole sequence, counted from 0 (not from its document's
/// start). Turning back is the gradient of turning forward. Angles are float64 and made from x alone: they do not
/// depend on which rank holds the row. D is even. Complete on return.
/// Worked example: D = 2, base 10000: the pair (1, 0) of row 3 becomes (cos 3, sin 3).
void rope(const core::TensorView& tensor, Index batch, const pattern::StoredRows& rows, Index heads, Index head_dim,
          double base, Turn turn);

}  // namespace annulus::layer
