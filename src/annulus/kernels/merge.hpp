// What several ranks made of the same query rows, each with other keys, becomes one: running softmaxes by
// log-sum-exp, lists of largest weights by weight.
//
// Worked example, in base 2 and without a bias: (m, l, acc) = (2, 3, 6 v) and (4, 1, 5 w) are together
// (4, 3/4 + 1, 6/4 v + 5 w).
#pragma once

#include "annulus/kernels/attention.hpp"

namespace annulus::kernels {

/// Adds `parts` states of every row to `into`, part after part: of batch entry b, part p of row i is row p * into.rows
/// + i of `from`, which has parts * into.rows rows, and the precision, exponent bias and sums of `into`. Rescaling is
/// exact, so that the order of the parts alone decides bits. Complete on return.
void merge_states(const State& from, core::Index parts, State& into);

/// Lists (B, rows, H, size) of largest weights and their rows (top_list.hpp).
struct TopLists {
  void* weights = nullptr;  ///< float32 or float64
  core::Index* rows = nullptr;
};

/// The largest of `parts` lists of every row, which lie as above, into the memory of `into`; rows are all other ones.
/// Complete on return.
///   type  of the weights; an entry without a row has weight 0 and row -1
void merge_top(const core::Shape& shape, core::Index rows, core::DType type, core::Index size, const TopLists& from,
               core::Index parts, const TopLists& into);

}  // namespace annulus::kernels
