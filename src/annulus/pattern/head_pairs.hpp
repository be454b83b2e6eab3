// All pairs as the heads see them, for those who ask how often two rows meet.
#pragma once

#include "annulus/pattern/items.hpp"

namespace annulus::pattern {

/// The pattern's pairs of every head of the share, those that a layout leaves out included.
/// Worked example: pairs (all, 1) and (8, 2), 2 heads, longnet: head 0 has (2^62, 1, 0) and (8, 2, 0), head 1 has
/// (2^62, 1, 0) and (8, 2, 1): no document is as long.
core::HeadPairs head_pairs(const Layout& layout);

}  // namespace annulus::pattern
