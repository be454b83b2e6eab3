// Finds which rows of one rank another rank reads.
#pragma once

#include <vector>

#include "annulus/pattern/items.hpp"

namespace annulus::pattern {

/// Classes of K/V heads of a layout's share. Ranks read the same rows of all heads of a class, because the query heads
/// of these heads use the same offsets of each pair. Rows that need only be counted are found once for each class.
/// Worked example: 8 K/V heads, longnet, pairs (all, 1) and (8, 2): heads 0 ... 3 are class 0, heads 4 ... 7 class 1.
struct HeadClasses {
  std::vector<Index> heads;                            ///< [class] how many heads are in the class
  std::vector<std::vector<std::vector<Index>>> users;  ///< [used pair][used offset] classes that use the offset
};
HeadClasses head_classes(const Layout& layout);

/// Returns the rows of `owner` that `consumer` reads because some queries of `consumer` see these rows. owner and
/// consumer hold different rows. Costs O(owner's intervals x pairs x offsets), whatever the number of rows, because
/// only a segment that crosses the end of an interval can hold rows of two ranks. A piece is the rows of one comb in
/// one interval of the owner. A piece of a segment's comb is read as a whole if the consumer has a row of this comb (if
/// causal, a row after the interval). A window's comb is read as far as queries see it, extended to whole granules:
/// `left` comb rows before every interval of the consumer, `right` comb rows after it, and the rows of Window::first.
/// If `classes` is given, the result has ranges for each class instead of each head.
PackedRows rows_read(const Layout& layout, const StoredRows& owner, const StoredRows& consumer,
                     const HeadClasses* classes = nullptr);

/// Returns the same rows as rows_read(), but the ranges are not reduced (strided_ranges.hpp): each range is a piece, or
/// the part of a piece that a window shows. In a layout of one pair no row is in two ranges of a head.
PackedRows pieces_read(const Layout& layout, const StoredRows& owner, const StoredRows& consumer,
                       const HeadClasses* classes = nullptr);

/// Joins two results of rows_read(): each range of `a` and of `b` lies inside one range of the result.
PackedRows join(PackedRows a, const PackedRows& b);

}  // namespace annulus::pattern
