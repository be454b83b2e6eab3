// Which rows of one rank another rank reads.
#pragma once

#include <vector>

#include "annulus/pattern/items.hpp"

namespace annulus::pattern {

/// The rows of `owner` that `consumer` reads because some of its queries see these rows, in the form in which rows
/// travel. owner and consumer hold different rows. Costs O(owner's intervals x pairs x offsets), whatever the number of
/// rows, because only a segment that crosses the end of an interval can hold rows of two ranks. From a segment's comb,
/// whole pieces travel (if causal, only pieces before some query of the consumer). From a window's comb, only rows
/// travel that some query sees: `left` rows before every interval of the consumer and `right` rows after it.
PackedRows rows_read(const Layout& layout, const StoredRows& owner, const StoredRows& consumer);

/// The same rows as ranges that are not reduced (strided_ranges.hpp): each range is the piece of one comb in one of the
/// owner's intervals, or the part of this piece that a window shows. In a layout of one pair no row is in two ranges.
PackedRows pieces_read(const Layout& layout, const StoredRows& owner, const StoredRows& consumer);

/// Joins two results of rows_read(): each range of `a` and of `b` lies inside one range of the result.
PackedRows join(PackedRows a, const PackedRows& b);

}  // namespace annulus::pattern
