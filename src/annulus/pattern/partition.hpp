// Decides which rank holds which rows. The number of ranks is an argument, so one process can plan for all ranks.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "annulus/core/types.hpp"

namespace annulus::pattern {

using core::Index;
using core::Interval;

/// The ways in which the sequence can be divided among ranks.
enum class PartitionKind { contiguous, zigzag, block_cyclic, documents };

struct PartitionEntry {
  PartitionKind value;
  std::string_view name;
  std::string_view description;
};
/// Every kind of partition with its name in the run file.
inline constexpr std::array<PartitionEntry, 4> partition_table{{
    {PartitionKind::contiguous, "contiguous",
     "rank p holds the p-th of P intervals of rows, whose lengths differ by at most one"},
    {PartitionKind::zigzag, "zigzag",
     "every document is cut into 2 P chunks, rank p holds chunks p and 2P-1-p: balances causal work"},
    {PartitionKind::block_cyclic, "block_cyclic",
     "blocks of block_size rows dealt to ranks in turn; for comparison only: it moves the most rows"},
    {PartitionKind::documents, "documents",
     "whole documents, so that ranks have equal work; a document too large for a rank is cut (if causal: zigzag)"},
}};

std::string_view name_of(PartitionKind kind);

/// Rows in the order in which an array stores them, interval after interval. Intervals are ascending and disjoint. The
/// stored row of a row is its index in the array.
/// Worked example: {[4, 6), [10, 13)} stores global rows 4 5 10 11 12 as rows 0 1 2 3 4.
class StoredRows {
 public:
  StoredRows() = default;
  explicit StoredRows(const std::vector<Interval>& intervals);
  /// Some rows of `whole`, at the stored rows that they have in `whole`. The intervals are ascending and disjoint, and
  /// each lies inside one interval of `whole`.
  StoredRows(const StoredRows& whole, const std::vector<Interval>& intervals);

  const std::vector<Interval>& intervals() const { return intervals_; }
  Index count() const { return count_; }
  /// Stored row of the first row of interval `i`.
  Index stored_begin(std::size_t i) const { return begins_[i]; }
  /// Index of the first interval that ends after `row`, found by bisection; intervals().size() if there is none.
  std::size_t first_ending_after(Index row) const;

 private:
  std::vector<Interval> intervals_;
  std::vector<Index> begins_;
  Index count_ = 0;
};

/// The rows of every rank. In a partition of owners, each of the rows 0 ... n-1 is on exactly one rank.
using Partition = std::vector<StoredRows>;

/// fullest() returns the first rank that has the most rows; most_rows() returns the number of this rank's rows.
int fullest(const Partition& partition);
Index most_rows(const Partition& partition);

/// Divides n rows among `ranks` ranks in order. The first n mod `ranks` ranks hold one row more than the others.
Partition contiguous_partition(Index n, int ranks);

/// Makes StoredRows of ascending, disjoint intervals. Adjacent intervals are joined, and empty intervals are dropped.
StoredRows joined(const std::vector<Interval>& ascending);

/// Cuts every document into 2 P chunks, whose lengths differ by at most one. Rank p holds chunks p and 2P - 1 - p. In
/// dense causal attention row t of a document sees t + 1 keys. So if a rank's first chunk has little work, its
/// second chunk has much, and all ranks have about the same work.
Partition zigzag_partition(const std::vector<Index>& documents, int ranks);

/// Cuts the rows into blocks of `block` rows. Block b is on rank b mod P.
Partition block_cyclic_partition(Index n, int ranks, Index block);

/// Puts all n rows on rank 0.
Partition root_partition(Index n, int ranks);

/// Returns those rows of `rows` whose stored rows lie in `part`, numbered from 0 again.
/// Worked example: stored rows [1, 3) of {[4, 6), [10, 13)} are {[5, 6), [10, 11)}.
StoredRows taken(const StoredRows& rows, Interval part);

/// Return the rows of `rows`, or of every rank, that lie in `range`. Their stored rows are numbered from 0 again.
/// Worked example: the rows of {[4, 6), [10, 13)} in [5, 12) are {[5, 6), [10, 12)}, stored as rows 0 1 2.
StoredRows within(const StoredRows& rows, Interval range);
Partition within(const Partition& partition, Interval range);

/// Returns the rows of ranks [ranks.begin, ranks.end) together, ascending; adjacent intervals are joined.
StoredRows united(const Partition& partition, Interval ranks);

/// Returns the stored rows at which `whole` has the intervals of `part`. Each interval of `part` must lie inside one
/// interval of `whole`. Worked example: {[0, 4), [10, 16)} has {[2, 4), [12, 14)} at its stored rows [2, 4) and [6, 8).
std::vector<Interval> stored_intervals(const StoredRows& whole, const StoredRows& part);

}  // namespace annulus::pattern
