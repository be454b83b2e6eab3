// A rule that changes scores by a cap, a bias or both (kernels/score_rule.hpp), in the form that tiles use. This header
// has plain data only, because files with different compiler flags include it (tile_functions.hpp).
#pragma once

#include <cstdint>
#include <type_traits>

namespace annulus::kernels::host {

/// Positions of rows: integers as wide as the numbers N of scores. Differences of positions are exact.
template <class N>
using Position = std::conditional_t<sizeof(N) == 8, std::int64_t, std::int32_t>;

/// The numbers of a rule for some rows and keys, private to a thread. A row is a (query row, head) pair of a task or
/// chunk. Scores are in base 2, so cap and slopes contain a factor log2(e). If row i has position x and key j position
/// p, the rule first sets s = cap tanh(s / cap), then subtracts slopes[i] * biased[j] * |x - p|.
///   cap     0: scores have no cap
///   twice   2 log2(e) / cap: e^(2 s / cap) = 2^(twice s)
///   slopes  [rows]            per unit of the positions; 0 for exempt rows (ScoreRule); null: there is no bias
///   row_x, row_y [rows], key_x, key_y [keys]
///           positions; on a line row_y and key_y are null; in a plane |x - p| is the Euclidean distance
///   biased  [keys]            0 for exempt keys, otherwise 1
template <class N>
struct RuledPairs {
  N cap;
  N twice;
  N* slopes;
  Position<N>* row_x;
  Position<N>* row_y;
  Position<N>* key_x;
  Position<N>* key_y;
  N* biased;
};

}  // namespace annulus::kernels::host
