// Merges results for the same query rows that several ranks computed with different keys, or one rank with several
// parts of the keys (key_parts()). Running softmaxes are merged by log-sum-exp, lists of the largest weights by weight.
//
// Worked example, in base 2 and without a bias: (m, l, acc) = (2, 3, 6 v) and (4, 1, 5 w) together give
// (4, 3/4 + 1, 6/4 v + 5 w).
#pragma once

#include "annulus/kernels/attention.hpp"

namespace annulus::kernels {

/// Adds `parts` states of every row to `into`, part after part. `from` has parts * into.rows rows: in each batch entry,
/// part p of row i is row p * into.rows + i. Throws Error if `from` and `into` differ in precision or exponent bias, or
/// if only one of them has score_sum. Rescaling is exact, so only the order of the parts decides the bits. Complete on
/// return.
void merge_states(const State& from, core::Index parts, State& into);

/// Lists (B, rows, H, size) of the largest weights and of the key rows that have these weights (top_list.hpp).
struct TopLists {
  void* weights = nullptr;  ///< float32 or float64
  core::Index* rows = nullptr;
};

/// Writes the entries of largest weight in the `parts` lists of every row to the memory of `into`. `from` has the lists
/// of the parts in the same layout as `from` of merge_states(). No key row may be in two lists of one query row. In
/// `into`, an entry without a key has weight 0 and row -1. Complete on return.
///   type  of the weights
void merge_top(const core::Shape& shape, core::Index rows, core::DType type, core::Index size, const TopLists& from,
               core::Index parts, const TopLists& into);

}  // namespace annulus::kernels
