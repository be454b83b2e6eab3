#include "annulus/strategies/slices.hpp"

#include <algorithm>

#include "annulus/strategies/strategy.hpp"

namespace annulus::strategies {
namespace {

/// Returns the size of the largest slice if `all` is divided evenly into the fewest slices of at most `most`. Worked
/// example: 5 heads in slices of at most 4 make slices of 3 and 2 heads: 3.
Index even(Index all, Index most) { return core::ceil_div(all, core::ceil_div(all, most)); }

}  // namespace

SliceSize whole_of(const core::Shape& shape) { return {shape.batch, shape.kv_heads}; }

Index slices_of(const core::Shape& shape, const SliceSize& size) {
  return core::ceil_div(shape.batch, size.batch_entries) * core::ceil_div(shape.kv_heads, size.kv_heads);
}

Slice slice_of(const core::Shape& shape, const SliceSize& size, Index i) {
  const Index of_entry = core::ceil_div(shape.kv_heads, size.kv_heads);
  const Index b = i / of_entry * size.batch_entries, h = i % of_entry * size.kv_heads;
  return {{b, std::min(b + size.batch_entries, shape.batch)}, {h, std::min(h + size.kv_heads, shape.kv_heads)}};
}

Problem narrowed(const Problem& whole, const Slice& slice) {
  Problem narrow =
      slice.kv_heads.size() == whole.shape.kv_heads ? whole : narrowed(whole, slice.query_heads(whole.shape.group()));
  narrow.shape.batch = slice.batch.size();
  if (whole.has_own_keys())
    narrow.key_ranges = {whole.key_ranges.begin() + slice.batch.begin, whole.key_ranges.begin() + slice.batch.end};
  return narrow;
}

std::optional<SliceSize> largest_slices(const core::Shape& shape, const std::function<bool(const SliceSize&)>& fits) {
  // Sizes in ascending order: 1 ... Hkv - 1 heads of one entry, then 1 ... B whole entries.
  const Index heads = shape.kv_heads;
  const auto size = [&](Index i) { return i < heads ? SliceSize{1, i} : SliceSize{i - heads + 1, heads}; };
  Index good = 0, bad = heads + shape.batch;
  if (fits(size(bad - 1))) return size(bad - 1);
  for (--bad; bad - good > 1;) {
    const Index middle = good + (bad - good) / 2;
    (fits(size(middle)) ? good : bad) = middle;
  }
  if (good == 0) return std::nullopt;
  const SliceSize largest = size(good);
  return SliceSize{even(shape.batch, largest.batch_entries), even(heads, largest.kv_heads)};
}

bool keeps_bits(const Strategy& strategy, const Problem& problem, const SliceSize& size, int ranks) {
  if (!problem.reproducible) return true;
  for (Index i = 0; i < core::ceil_div(problem.shape.kv_heads, size.kv_heads); ++i) {
    const Problem slice = narrowed(problem, slice_of(problem.shape, size, i));
    if (!why_not_reproducible(strategy, slice, ranks).empty()) return false;
  }
  return true;
}

std::optional<SliceSize> largest_that_keeps_bits(const Strategy& strategy, const Problem& problem, SliceSize size,
                                                 int ranks) {
  for (; size.kv_heads > 0; size = {1, size.kv_heads - 1}) {
    if (keeps_bits(strategy, problem, size, ranks)) return size;
  }
  return std::nullopt;
}

SliceSize smallest_slices(const Strategy& strategy, const Problem& problem, int ranks) {
  SliceSize size;
  while (size.kv_heads < problem.shape.kv_heads && !keeps_bits(strategy, problem, size, ranks)) ++size.kv_heads;
  return size;
}

}  // namespace annulus::strategies
