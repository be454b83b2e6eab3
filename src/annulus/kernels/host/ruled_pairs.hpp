// A rule of scores (kernels/score_rule.hpp) as tiles have it. Plain data, for the reasons given in tile_functions.hpp.
#pragma once

#include <cstdint>
#include <type_traits>

namespace annulus::kernels::host {

/// Where rows are: whole numbers as wide as the numbers N of scores, whose differences are exact.
template <class N>
using Place = std::conditional_t<sizeof(N) == 8, std::int64_t, std::int32_t>;

/// What a rule says of some query rows (rows of a task or chunk, one for each head) and keys, private to a thread.
/// Scores are in base 2, so that cap and slopes have a factor log2(e) in them. With x and p the places of row i and
/// key j
///   s = cap tanh(s / cap),     s = s - slopes[i] * near[j] * |x - p|
///   cap     0: scores have none
///   twice   2 log2(e) / cap: e^(2 s / cap) = 2^(twice s)
///   slopes  [rows]            none: there is no bias. 0 for rows that are at no distance of any; in units of places
///   x, y    [rows], [keys]    without y where rows lie on a line
///   near    [keys]            0 for keys that are at no distance of any row, otherwise 1
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
