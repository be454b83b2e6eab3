// Lists all pairs with the offset of each head, for code that counts the pairs through which a row sees another row.
#pragma once

#include "annulus/pattern/items.hpp"

namespace annulus::pattern {

/// Returns the pattern's pairs for every head in Layout::share, including pairs outside Layout::pairs. Worked example
/// of (segment, dilation, offset): pairs (all, 1) and (8, 2), 2 heads, longnet: head 0 has (2^62, 1, 0) and (8, 2, 0),
/// head 1 has (2^62, 1, 0) and (8, 2, 1). A segment of 2^62 stands for `all`, because no document is that long.
core::HeadPairs head_pairs(const Layout& layout);

}  // namespace annulus::pattern
