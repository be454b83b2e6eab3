// Finds the padding of `torchscale`: keys of score 0 and value 0 that fill up segments.
//
// torchscale pads a document of n rows with zeros to whole segments of s = min(w, n) rows. It then pads each segment
// to m = ceil(s / r) whole slots of r rows. From each slot a head takes the row at the head's offset. Without a causal
// mask, the zeros are keys like all other rows. If a head picks T rows of a segment, each of these T rows also sees the
// missing m - T zeros.
// m - T can be above 0 only in the last segment of a document, or if r does not divide s.
//
// Worked example: n = 10, H = 2, pair (8, 2): s = 8, m = 4.
//   segment 0..7   offset 0 (head 0): rows 0 2 4 6, none filled in     offset 1 (head 1): rows 1 3 5 7, none
//   segment 8..9   offset 0 (head 0): row 8, 3 filled in               offset 1 (head 1): row 9, 3 filled in
// No rank stores or sends such keys. Instead, the rank that computes a row starts the row's running softmax with them.
#pragma once

#include <optional>

#include "annulus/pattern/items.hpp"

namespace annulus::pattern {

/// Returns the filled-in keys for the rows in `queries`: for each pair, runs of rows that see equally many such keys.
/// Heads are numbered as in the share (items.hpp). A pair has no runs if it is outside Layout::pairs, if the semantics
/// is not torchscale, or with a causal mask.
std::vector<core::FilledRuns> filled_keys(const Layout& layout, const StoredRows& queries);

/// A pair for which torchscale writes rows of a document's output to wrong positions. torchscale pads each segment to
/// whole slots and joins the padded segments. So if r does not divide s, all segments except the first are shifted.
struct Displacement {
  Index pair = 0;
  Index document = 0;  ///< index in Documents
  Interval rows;       ///< the document's rows
};
/// Returns the first document with such a pair, and its first such pair. Returns nothing if there is no such document,
/// or if the semantics is not torchscale.
std::optional<Displacement> find_displacement(const Pattern& pattern, const Documents& documents);

}  // namespace annulus::pattern
