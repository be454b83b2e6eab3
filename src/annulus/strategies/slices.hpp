// A problem too large for memory is cut into slices that are computed one after another. Batch entries and heads are
// independent, so a slice is the same problem with fewer entries or heads. (Messages to users call a slice a pass over
// the input; in the code a pass is the forward, backward or statistics pass.) Worked example: a problem has the batch
// entries e0 e1 e2 and the K/V heads h0 h1 h2 h3.
//   slices of 2 entries                  | e0 e1 all heads | e2 all heads |
//   slices of 3 K/V heads of an entry    | e0 h0 h1 h2 | e0 h3 | e1 h0 h1 h2 | e1 h3 | e2 h0 h1 h2 | e2 h3 |
#pragma once

#include <functional>

#include "annulus/strategies/problem.hpp"

namespace annulus::strategies {

class Strategy;

/// The largest slice of a division: some batch entries with all heads; or, of one entry, some K/V heads and the query
/// heads that read them.
struct SliceSize {
  Index batch_entries = 1;
  Index kv_heads = 1;
  bool operator==(const SliceSize&) const = default;
};

struct Slice {
  core::Interval batch, kv_heads;

  /// The query heads that read the slice's K/V heads; `group` query heads read each K/V head.
  core::Interval query_heads(Index group) const { return {kv_heads.begin * group, kv_heads.end * group}; }
};

/// The whole problem as one slice.
SliceSize whole_of(const core::Shape& shape);

/// Returns the number of slices.
Index slices_of(const core::Shape& shape, const SliceSize& size);
/// Returns slice i. Slices are counted entry by entry, inside an entry head by head. Only the last slice of an entry,
/// or of all, may be smaller.
Slice slice_of(const core::Shape& shape, const SliceSize& size, Index i);

/// The slice's problem. Problem::share says which heads of the whole problem it has.
Problem narrowed(const Problem& whole, const Slice& slice);

/// Among the sizes that fit, returns the one that gives the fewest slices; the slices are as equal in size as possible.
/// Empty if not even one K/V head of one entry fits. Assumes that if a size fits, all smaller sizes fit, too.
std::optional<SliceSize> largest_slices(const core::Shape& shape, const std::function<bool(const SliceSize&)>& fits);

/// True if slices of a reproducible problem are reproducible, too. If a slice has few heads, several ranks may work on
/// one K/V head, and bits may depend on the number of ranks.
bool keeps_bits(const Strategy& strategy, const Problem& problem, const SliceSize& size, int ranks);
/// Returns `size` if it keeps bits, otherwise the most heads of one entry that keep bits; empty if there is none.
std::optional<SliceSize> largest_that_keeps_bits(const Strategy& strategy, const Problem& problem, SliceSize size,
                                                 int ranks);
/// Returns the fewest K/V heads of one entry that keep bits; all its heads if fewer do not.
SliceSize smallest_slices(const Strategy& strategy, const Problem& problem, int ranks);

}  // namespace annulus::strategies
