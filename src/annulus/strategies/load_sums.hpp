// Small sums that the closed forms of cost.hpp share.
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "annulus/strategies/problem.hpp"

namespace annulus::strategies {

inline double most(const std::vector<double>& values) {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}
inline double sum(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

inline Index most_rows(const pattern::Partition& partition) {
  Index rows = 0;
  for (const pattern::StoredRows& one : partition) rows = std::max(rows, one.count());
  return rows;
}

/// Bytes of K and V, and of the sums of their gradients, of so many (row, head) pairs, all batch entries.
inline double kv_bytes(const Problem& problem, double head_rows) {
  return 2.0 * double(problem.shape.batch) * head_rows * double(problem.head_row_bytes());
}
inline double sum_bytes(const Problem& problem, double head_rows) {
  return 2.0 * double(problem.shape.batch) * head_rows * double(problem.head_row_sum_bytes());
}

/// to += factor * counts, number by number.
template <class Number>
void add(std::vector<Number>& to, const std::vector<Index>& counts, Number factor) {
  to.resize(counts.size());
  for (std::size_t p = 0; p < counts.size(); ++p) to[p] += factor * Number(counts[p]);
}

}  // namespace annulus::strategies
