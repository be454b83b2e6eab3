// The padding of `torchscale`: keys of score 0 and value 0 where a document's segments are not full.
//
// torchscale pads a document of n rows with zeros to whole segments of s = min(w, n) rows, and a segment to whole slots
// of r rows, m = ceil(s / r) of them. From each slot a head takes the row at its offset, and without a causal mask the
// zeros among them are keys like any other. So a picked row of a segment sees m - T of them, where T rows of the
// segment are picked: only in the last segment of a document is that not 0, or where r does not divide s.
//
// Worked example: n = 10, H = 2, pair (8, 2): s = 8, m = 4.
//   segment 0..7   offset 0 (head 0): rows 0 2 4 6, none filled in     offset 1 (head 1): rows 1 3 5 7, none
//   segment 8..9   offset 0 (head 0): row 8 and 3 filled in            offset 1 (head 1): row 9 and 3
// No rank stores or moves such keys: the rank that computes a row lets its running softmax start with them.
#pragma once

#include <optional>

#include "annulus/pattern/items.hpp"

namespace annulus::pattern {

/// What is filled in for the rows of a block, heads as the share numbers them: runs for each pair, in the order of the
/// pairs; none for pairs that are not to be worked on, and nothing at all where semantics or mask know no padding.
std::vector<core::FilledRuns> filled_keys(const Layout& layout, const StoredRows& queries);

/// A pair for which torchscale writes a document's rows to wrong places: it joins segments padded to whole slots, so
/// where r does not divide s every segment but the first has moved.
struct Displacement {
  Index pair = 0;
  Index document = 0;  ///< number of the document
  Interval rows;       ///< of the document
};
/// The first of them; none where the semantics is another one.
std::optional<Displacement> find_displacement(const Pattern& pattern, const Documents& documents);

}  // namespace annulus::pattern
