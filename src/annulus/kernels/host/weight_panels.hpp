// Finds the panels of keys that a group of query rows needs, and computes the weights E (backward_chunks.hpp) of these
// panels. Gradients and statistics are made from E.
#pragma once

#include <type_traits>

#include "annulus/kernels/host/backward_block.hpp"
#include "annulus/kernels/host/tile_functions.hpp"

namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET {

/// Returns the keys of the panels that a group of MR rows needs, counted from the tile's first key. Panels are whole,
/// but the last one may be half a panel.
template <class T>
ANNULUS_INLINE Range panels_of(const ScoreRows<T>& q, int row, int tile, int keys) {
  const int begin = at_least(q.begin[row] - tile, 0) / kKeyBlock<T> * kKeyBlock<T>;
  const int end = round_up(at_most(q.end[row + kRowBlock - 1] - tile, keys), kLanes<T>);
  return {begin, end > begin ? end : begin};
}

/// Calls fill(j, vectors, is_masked) for each panel. A panel begins with key j of the tile and has NR keys (2 vectors);
/// the last panel may have half as many. A panel of NR keys needs no mask if every row of the group sees all its keys.
template <class T, class Fill>
ANNULUS_INLINE void for_each_panel(const ScoreRows<T>& q, int row, int tile, Range panels, const Fill& fill) {
  constexpr int nr = kKeyBlock<T>;
  using One = std::integral_constant<int, 1>;
  using Two = std::integral_constant<int, 2>;
  const int whole_begin = q.begin[row + kRowBlock - 1] - tile, whole_end = q.end[row] - tile;
  int j = panels.begin;
  for (; j + nr <= panels.end; j += nr) {
    if (j >= whole_begin && j + nr <= whole_end)
      fill(j, Two{}, std::false_type{});
    else
      fill(j, Two{}, std::true_type{});
  }
  if (j < panels.end) fill(j, One{}, std::true_type{});
}

/// Returns which keys MR rows see, in a panel that begins with key number `key` of the chunk.
template <class T>
ANNULUS_INLINE PanelMask seen_from(const ScoreRows<T>& q, int row, int key) {
  return {q.begin + row, q.end + row, key};
}

/// Computes E of MR rows for NV vectors of keys, from key number `key` of the chunk on.
///   weights [MR][kStripStride]
template <class T, int NV, bool kMasked, class Rule>
ANNULUS_INLINE void fill_weights(const ScoreRows<T>& q, const ScoreKeys<T>& k, int row, int key, Number<T>* weights,
                                 Rule rule) {
  constexpr int nr = kKeyBlock<T>;
  const int depth = padded_depth<T>(q.head_dim);
  weights_of_panel<T, NV, kMasked>(q.queries + row * nr, q.capacity * nr, k.keys + std::int64_t(key) * depth, depth,
                                   q.score_factor, q.shift + row, seen_from(q, row, key), weights, rule.at(row, key));
}

}  // namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET
