// Finds which rows of one rank another rank reads.
#pragma once

#include <vector>

#include "annulus/pattern/items.hpp"

namespace annulus::pattern {

/// Returns the rows of `owner` that `consumer` reads because some queries of `consumer` see these rows. owner and
/// consumer hold different rows. Costs O(owner's intervals x pairs x offsets), whatever the number of rows, because
/// only a segment that crosses the end of an interval can hold rows of two ranks. A piece is the rows of one comb in
/// one interval of the owner. A piece of a segment's comb is read as a whole (if causal, only if it is before some
/// query of the consumer). A window's comb is read as far as queries see it, extended to whole granules: `left` comb
/// rows before every interval of the consumer and `right` comb rows after it.
PackedRows rows_read(const Layout& layout, const StoredRows& owner, const StoredRows& consumer);

/// Returns the same rows, but the ranges are not reduced (strided_ranges.hpp): each range is a piece, or the part of a
/// piece that a window shows. In a layout of one pair no row is in two ranges.
PackedRows pieces_read(const Layout& layout, const StoredRows& owner, const StoredRows& consumer);

/// Joins two results of rows_read(): each range of `a` and of `b` lies inside one range of the result.
PackedRows join(PackedRows a, const PackedRows& b);

}  // namespace annulus::pattern
