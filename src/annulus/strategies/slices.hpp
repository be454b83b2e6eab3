// A problem too large for memory, cut into slices that are computed one after another: batch entries and heads have
// nothing to do with each other, so that a slice is the same problem of fewer of them. (For its user a slice is a pass
// over the input; passes of the code are forward, statistics and backward.)
//
//   3 entries, 4 K/V heads, slices of 2 entries     | e0 e1 all heads | e2 all heads |
//   the same, slices of 3 K/V heads of an entry     | e0 h0 h1 h2 | e0 h3 | e1 h0 h1 h2 | e1 h3 | e2 h0 h1 h2 | e2 h3 |
#pragma once

#include <functional>

#include "annulus/strategies/problem.hpp"

namespace annulus::strategies {

/// Most that a slice holds: some batch entries with all heads, or of one entry some K/V heads and the query heads that
/// read them.
struct SliceSize {
  Index batch_entries = 1;
  Index kv_heads = 1;
  bool operator==(const SliceSize&) const = default;
};

struct Slice {
  core::Interval batch, kv_heads;

  /// Query heads that read the slice's K/V heads; `group` of them read each.
  core::Interval query_heads(Index group) const { return {kv_heads.begin * group, kv_heads.end * group}; }
};

/// The whole problem as one slice.
SliceSize whole_of(const core::Shape& shape);

Index slices_of(const core::Shape& shape, const SliceSize& size);
/// Slice i of them: entry by entry, in an entry head by head. Only the last of an entry, or of all, may be smaller.
Slice slice_of(const core::Shape& shape, const SliceSize& size, Index i);

/// The slice's problem: heads keep the offsets that they have in the whole problem.
Problem narrowed(const Problem& whole, const Slice& slice);

/// The size that makes the fewest slices of those that fit, cut evenly: fewer batch entries, then fewer heads; nothing
/// where not even one K/V head of one entry fits. What is smaller than a size that fits is taken to fit.
std::optional<SliceSize> largest_slices(const core::Shape& shape, const std::function<bool(const SliceSize&)>& fits);

}  // namespace annulus::strategies
