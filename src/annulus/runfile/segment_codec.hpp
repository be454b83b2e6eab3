// How an entry of attention.segments is read and written.
#pragma once

#include "annulus/pattern/pattern.hpp"
#include "annulus/runfile/codecs.hpp"

namespace annulus::runfile {

/// Rows, `all`, or a window: {window: 4} (a causal row sees itself and 3 rows before it; else 3 on either side),
/// {window: [3, 0]}, {window: [3, 0], first: 4}. Writes the two latter. Leaves a pair's dilation alone.
Codec<pattern::Pair> segment(Index most_rows);

}  // namespace annulus::runfile
