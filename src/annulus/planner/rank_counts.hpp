// Small sums that the closed forms of cost.hpp share.
#pragma once

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

#include "annulus/planner/cost.hpp"

namespace annulus::planner {

/// Work of a backward pass over that of a forward pass.
inline constexpr double backward_work_factor = core::backward_flops(1, 1) / core::forward_flops(1, 1);

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
  return double(problem.sum_parts()) * head_rows * double(problem.head_row_sum_bytes());
}

/// to += factor * counts, number by number.
template <class Number>
void add(std::vector<Number>& to, const std::vector<Index>& counts, Number factor) {
  to.resize(counts.size());
  for (std::size_t p = 0; p < counts.size(); ++p) to[p] += factor * Number(counts[p]);
}

/// Where rows go from part to part (strategies::ordered_parts()), the parts; else the partition itself.
pattern::Partition parts_of(const Problem& problem, const pattern::Partition& partition);

/// Adds an exchange of rows of one head: `bytes` each, of all batch entries.
void add_traffic(const pattern::Traffic& traffic, double bytes, RankCounts& counts);

/// Adds a gather of all of K and V on every rank.
void add_gathered_keys(const Problem& problem, const pattern::Partition& partition, RankCounts& counts);

/// Adds kernel calls, rows, communicators and windows of a pass whose messages are counted; of these `kinds` kinds
/// bring rows:
/// K and V (1), or K and V and the sums of their gradients (2).
void add_overheads(const CommunicationShape& shape, const Problem& problem, const pattern::Partition& partition,
                   int kinds, RankCounts& counts);

/// RankCounts of a strategy of unknown shape: predict(rank) tells them, up to largest_enumerated ranks. Every rank is
/// taken to get `messages` messages from each other rank, and to do `work` times the kept triples.
std::optional<RankCounts> enumerated(int ranks, double work, double messages,
                                     const std::function<Prediction(int rank)>& predict);

}  // namespace annulus::planner
