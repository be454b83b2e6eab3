// Defines the kernel's arguments, which are only integers.
//
// A comb is the set of rows base, base + r, base + 2r, ... of one segment. Comb index t = 0, 1, 2, ... counts these
// rows. A rank stores rows in arrays that hold pieces of combs. A Run says where a range of comb indices lies in such
// an array. Causal attention inside a comb is t_key <= t_query (Band::upto). So the kernel computes attention without
// global row numbers, dilation or ranks.
//
// Worked example: segment rows 8..15, r = 3, offset 1 -> comb rows 9, 12, 15 (t = 0, 1, 2). A rank that owns
// rows 10..15, stored from 0, holds the Run {t = 1, row = 2, stride = 3, count = 2}: comb index 1 is global row 12 =
// stored row 2.
#pragma once

#include <vector>

#include "annulus/core/types.hpp"

namespace annulus::core {

/// Comb indices t, t + 1, ..., t + count - 1 are stored in rows row, row + stride, row + 2 stride, ... of an array.
struct Run {
  Index t = 0;
  Index row = 0;
  Index stride = 1;
  Index count = 0;

  bool operator==(const Run&) const = default;
};

/// A piece of a comb: runs [first_run, first_run + runs) of WorkList::runs, ascending in t, `count` rows in all.
struct RowMap {
  Index first_run = 0;
  Index runs = 0;
  Index count = 0;

  bool operator==(const RowMap&) const = default;
};

/// Says which keys of an item a query sees: those with -right <= t_query - t_key <= left, by comb index. If left or
/// right is negative, the band lies on one side of the diagonal. If left + right < 0, the band hides every key.
///   all    every key
///   upto   t_key <= t_query: causal attention, and the first part of the order of keys in kernels/attention.hpp
///   after  t_key > t_query: the second part of that order
/// `upto` and `after` together are `all`.
///
/// Worked example: left 2, right 1: the query of comb index 5 sees the keys 3, 4, 5 and 6.
struct Band {
  /// Larger than every comb index: the band has no limit on a side with this value.
  static constexpr Index unbounded = Index(1) << 60;

  Index left = unbounded;
  Index right = unbounded;

  static const Band all, upto, after;

  bool operator==(const Band&) const = default;
};
inline constexpr Band Band::all{};
inline constexpr Band Band::upto{unbounded, 0};
inline constexpr Band Band::after{-1, unbounded};

/// Returns the band of the keys that lie in both bands.
constexpr Band overlap(const Band& a, const Band& b) {
  return {a.left < b.left ? a.left : b.left, a.right < b.right ? a.right : b.right};
}

/// "Let these query rows see these key rows", for every batch entry and for the query heads
/// head_first, head_first + head_stride, ... (head_count of them), all of which read key/value head kv_head.
struct WorkItem {
  RowMap query;
  RowMap key;
  Index kv_head = 0;
  Index head_first = 0;
  Index head_stride = 1;
  Index head_count = 1;
  Band band = {};
  /// Numbers of rows, which only lists of top keys and biases of scores read: comb index t is row first_row +
  /// t*row_step of the document that begins at global row `document`.
  Index first_row = 0;
  Index row_step = 1;
  Index document = 0;
};

/// One pair of a pattern, (segment, dilation) or (window, dilation), as one head sees it. With a segment, row y of a
/// document is picked if (y mod segment) mod dilation = offset. An offset of -1 means that the pair has no rows for
/// this head. With a window (offset 0), row x sees the rows y with x - y = j dilation, -right <= j <= left, and the
/// document's rows before row `first`.
struct HeadPair {
  Index segment = 1;
  Index dilation = 1;
  Index offset = 0;
  bool is_window = false;
  Index left = 0;
  Index right = 0;
  Index first = 0;
};

/// Items that may be computed in any order and at the same time: no two of them have the same (query row, head).
struct WorkList {
  std::vector<Run> runs;
  std::vector<WorkItem> items;

  bool empty() const { return items.empty(); }
};

/// "These rows also see `keys` keys of score 0 and value 0." The keys are stored nowhere. In an array of queries the
/// rows are row, row + stride, ... (`count` of them), in every batch entry, for the heads head_first, head_first +
/// head_stride, ...
struct FilledRun {
  Index row = 0;
  Index stride = 1;
  Index count = 0;
  Index head_first = 0;
  Index head_stride = 1;
  Index head_count = 1;
  Index keys = 0;

  bool operator==(const FilledRun&) const = default;
};

/// No two runs have the same (row, head).
using FilledRuns = std::vector<FilledRun>;

/// All pairs of all heads: the `pairs` entries of head 0, then those of head 1, and so on.
struct HeadPairs {
  std::vector<HeadPair> of;
  Index pairs = 0;
};

}  // namespace annulus::core
