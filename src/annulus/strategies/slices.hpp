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

/// The largest slice of a division. A slice is either some batch entries with all heads or, of one entry, some K/V
/// heads and the query heads that read them.
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

/// Returns the size of a slice that is the whole problem.
SliceSize whole_of(const core::Shape& shape);

/// Returns the number of slices.
Index slices_of(const core::Shape& shape, const SliceSize& size);
/// Returns slice i. Slices are counted entry by entry, inside an entry head by head. Only the last slice of an entry,
/// or the last slice of all, may be smaller than `size`.
Slice slice_of(const core::Shape& shape, const SliceSize& size, Index i);

/// Returns the slice's problem. Its Problem::share says which heads of the whole problem the slice has.
Problem narrowed(const Problem& whole, const Slice& slice);

/// Among the sizes that fit, returns the one that gives the fewest slices; the slices are as equal in size as possible.
/// Empty if not even one K/V head of one entry fits. Assumes that if a size fits, all smaller sizes fit, too.
std::optional<SliceSize> largest_slices(const core::Shape& shape, const std::function<bool(const SliceSize&)>& fits);

/// True if the problem need not be reproducible, or if its slices of this size are reproducible. They may not be if a
/// slice has few heads: then several ranks may work on one K/V head, and bits may depend on the number of ranks.
bool keeps_bits(const Strategy& strategy, const Problem& problem, const SliceSize& size, int ranks);
/// Returns `size` if it keeps bits, otherwise the most K/V heads of one entry, at most size.kv_heads, that keep bits;
/// empty if no such size keeps bits.
std::optional<SliceSize> largest_that_keeps_bits(const Strategy& strategy, const Problem& problem, SliceSize size,
                                                 int ranks);
/// Returns the fewest K/V heads of one entry that keep bits; all heads of the entry if fewer heads do not keep bits.
SliceSize smallest_slices(const Strategy& strategy, const Problem& problem, int ranks);

}  // namespace annulus::strategies
