// A rule of scores (kernels/score_rule.hpp) in the form for tiles. Plain data, for the reasons in tile_functions.hpp.
#pragma once

#include <cstdint>
#include <type_traits>

namespace annulus::kernels::host {

/// Positions of rows: integers as wide as the numbers N of scores; their differences are exact.
template <class N>
using Place = std::conditional_t<sizeof(N) == 8, std::int64_t, std::int32_t>;

/// What a rule means for some query rows (rows of a task or chunk, one for each head) and keys, private to a thread.
/// Scores are in base 2, so that cap and slopes have a factor log2(e). With x and p the positions of row i and key j
///   s = cap tanh(s / cap),     s = s - slopes[i] * near[j] * |x - p|
///   cap     0: scores have none
///   twice   2 log2(e) / cap: e^(2 s / cap) = 2^(twice s)
///   slopes  [rows]            null: there is no bias. 0 for rows without distances to keys; in units of positions
///   x, y    [rows], [keys]    without y if rows lie on a line
///   near    [keys]            0 for keys without distances to rows, otherwise 1
template <class N>
struct RuledPairs {
  N cap;
  N twice;
  N* slopes;
  Place<N>* row_x;
  Place<N>* row_y;
  Place<N>* key_x;
  Place<N>* key_y;
  N* near;
};

}  // namespace annulus::kernels::host
