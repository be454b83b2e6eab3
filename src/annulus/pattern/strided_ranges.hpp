// Rows in the form in which they travel: ranges of constant stride, never index lists.
//
// For every (owner interval -> consumers, key/value head) the rows that are read are pieces of combs. Two rules keep
// the message small: a piece inside another one is dropped (the kernel reads the bigger one with a larger stride; where
// dilations divide each other what remains is exactly the union), and where what remains has as many rows as its span,
// the raw rows of the span are sent. So a message never holds more rows than the dense ring would send.
//
// Worked example: pieces 0 4 8 12 and 0 2 4 6 8 10 12 of rows [0, 16): the first lies inside the second and is dropped;
// 7 rows travel instead of 11. With 1 3 5 7 9 11 13 beside them, 14 rows stand for the span [0, 14): the raw rows 0 ...
// 13 are sent.
#pragma once

#include <vector>

#include "annulus/pattern/combs.hpp"
#include "annulus/pattern/partition.hpp"

namespace annulus::pattern {

/// Global rows first, first + stride, ..., count of them.
struct StridedRange {
  Index first = 0;
  Index stride = 1;
  Index count = 0;

  Index row(Index i) const { return first + i * stride; }
  Index end() const { return count > 0 ? row(count - 1) + 1 : first; }
  bool operator==(const StridedRange&) const = default;
};

/// Every row of `inner` is a row of `outer`.
bool contains(const StridedRange& outer, const StridedRange& inner);

/// The fewest ranges by the two rules above, ascending by first row.
std::vector<StridedRange> reduce(std::vector<StridedRange> ranges);

/// The rows of `part` that `range` has, too, where these follow one another in the part: the range's stride divides the
/// part's, or is the same. No rows where they have none in common.
StridedRange common(const StridedRange& part, const StridedRange& range);

/// Rows of `ranges` that no range of `others` has; all have one stride, and no row is in two ranges of a list.
std::vector<StridedRange> difference(const std::vector<StridedRange>& ranges, std::vector<StridedRange> others);

/// Rows of all ranges together, rows in two ranges counted twice: what a message costs.
Index row_count(const std::vector<StridedRange>& ranges);

/// Which rows of one owner interval a block holds, head by head.
struct OwnerInterval {
  Interval rows;                                 ///< of the owner
  std::vector<std::vector<StridedRange>> heads;  ///< [Hkv]: ranges of each key/value head, one after another
  bool operator==(const OwnerInterval&) const = default;
};

/// None of its heads has a range.
bool is_empty(const OwnerInterval& owned);

/// Content of a message, its owner intervals ascending and disjoint: for each of them, for each head, for each range,
/// its rows; one row here is D numbers of one head.
using PackedRows = std::vector<OwnerInterval>;

/// (row, head) pairs in packed rows; times 2 B D numbers it is the size of the message.
Index head_rows(const PackedRows& packed);

}  // namespace annulus::pattern
