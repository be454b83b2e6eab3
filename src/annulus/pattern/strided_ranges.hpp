// Describes the rows of a message as ranges of constant stride, never as lists of indices.
//
// For each key/value head, the rows that another rank reads of an interval of the owner are pieces of combs. Two rules
// keep the message small. First, a piece inside another piece is dropped, because the kernel can read the dropped
// piece's rows from the larger piece, with a larger stride. A row may still be in two pieces that only overlap, and is
// then sent twice. Second, if the remaining pieces together have at least as many rows as their span (from their first
// to their last row), all rows of the span are sent instead. So a message never has more rows than a dense ring would
// send.
//
// Worked example: pieces 0 4 8 12 and 0 2 4 6 8 10 12 of rows [0, 16): the first lies inside the second and is dropped;
// 7 rows travel instead of 11. If 1 3 5 7 9 11 13 are read, too, the pieces have as many rows as their span, so the 14
// rows 0 ... 13 are sent.
#pragma once

#include <vector>

#include "annulus/pattern/combs.hpp"
#include "annulus/pattern/partition.hpp"

namespace annulus::pattern {

/// The `count` global rows first, first + stride, ...
struct StridedRange {
  Index first = 0;
  Index stride = 1;
  Index count = 0;

  Index row(Index i) const { return first + i * stride; }
  Index end() const { return count > 0 ? row(count - 1) + 1 : first; }
  bool operator==(const StridedRange&) const = default;
};

/// True if every row of `inner` is a row of `outer`.
bool contains(const StridedRange& outer, const StridedRange& inner);

/// Applies the two rules above. The resulting ranges ascend by first row.
std::vector<StridedRange> reduce(std::vector<StridedRange> ranges);

/// Returns the rows that `part` and `range` have in common. The result is empty if there are none. It is also empty if
/// the stride of `range` does not divide the stride of `part`: the common rows may then not be consecutive in `part`.
StridedRange common(const StridedRange& part, const StridedRange& range);

/// Returns the rows of `ranges` that are in no range of `others`. All ranges have the same stride. The ranges of each
/// list are disjoint.
std::vector<StridedRange> difference(const std::vector<StridedRange>& ranges, std::vector<StridedRange> others);

/// Number of rows in all ranges. A row in two ranges counts twice, because a message has it twice.
Index row_count(const std::vector<StridedRange>& ranges);

/// The rows of one owner interval that a block holds, head by head.
struct OwnerInterval {
  Interval rows;                                 ///< the owner's interval
  std::vector<std::vector<StridedRange>> heads;  ///< [Hkv]: ranges of each key/value head, one after another
  bool operator==(const OwnerInterval&) const = default;
};

/// True if no head of the interval has a range.
bool is_empty(const OwnerInterval& owned);

/// Content of a message, in this order: owner intervals, ascending and disjoint; in each interval its heads; in each
/// head its ranges; in each range its rows. Here a row is the D numbers of one head.
using PackedRows = std::vector<OwnerInterval>;

/// Number of (row, head) pairs in packed rows. The message has B (D + Dv) times as many numbers.
Index head_rows(const PackedRows& packed);

}  // namespace annulus::pattern
