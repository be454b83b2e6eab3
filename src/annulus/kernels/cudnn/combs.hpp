// Turns work lists into calls of a library that has only dense attention on strided 4-D tensors. A dilation becomes a
// stride. The segments of a pair, for heads with the same offset, become one tensor, whose batch dimension holds them.
//
// Worked example: 16 rows, pair (8, 2), H = Hkv = 4, longnet: heads 0 and 1 have offset 0, heads 2 and 3 offset 1. The
// list has 8 items of 4 queries and 4 keys, and they make two calls:
//   rows 0 2 4 6 | 8 10 12 14, heads 0 1    first row 0, stride 2, the next segment begins 8 rows later
//   rows 1 3 5 7 | 9 11 13 15, heads 2 3    first row 1, otherwise the same
// A shorter last segment makes a call of its own. If a rank's rows are several runs (zigzag), each pair of a run of
// queries and a run of keys makes calls. A row may then see keys in several calls, and its state adds them up.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "annulus/core/work_item.hpp"

namespace annulus::kernels::cudnn {

using core::Index;

/// The rows first, first + stride, ... (`count` rows) of segment 0. Each further segment begins `next` rows later.
struct SegmentRows {
  Index first = 0;
  Index stride = 1;
  Index count = 0;
  Index next = 0;

  Index row(Index segment, Index t) const { return first + segment * next + t * stride; }
  bool operator==(const SegmentRows&) const = default;
};

/// Attention of `segments` segments and `groups` key/value heads at once. A call has every (query row, head) and every
/// (key row, key/value head) only once.
struct StridedCall {
  Index segments = 1;
  Index groups = 1;  ///< key/value heads
  Index heads = 1;   ///< query heads that read each key/value head
  SegmentRows query;
  SegmentRows key;
  Index head_first = 0;
  Index head_stride = 1;  ///< from one of the groups * heads query heads to the next one
  Index kv_head = 0;
  Index next_kv_head = 0;  ///< how much larger kv_head is in the next group
  Index next_key_row = 0;  ///< the same for stored key rows; 0 unless packed rows of each key/value head lie apart
  /// Query i sees key j if j <= i + *seen; empty: all queries see all keys.
  std::optional<Index> seen = {};

  Index query_head(Index group, Index head) const { return head_first + (group * heads + head) * head_stride; }
  Index key_row(Index segment, Index group, Index t) const { return key.row(segment, t) + group * next_key_row; }
  bool operator==(const StridedCall&) const = default;
};

/// A list as strided calls, and the items that cannot be such calls (`rest`). In `calls` and `rest` together, each
/// query row sees exactly the keys that it sees in the list.
struct CutList {
  std::vector<StridedCall> calls;
  core::WorkList rest;
  std::string why_rest;  ///< why the first item of `rest` cannot be a call: "rows in 12 x 12 pieces"
};
CutList cut_into_calls(const core::WorkList& work);

/// Returns the work list of a call, for kernels that take work lists.
core::WorkList list_of(const StridedCall& call);

}  // namespace annulus::kernels::cudnn
