// Who sends which rows to whom, hop by hop. Pure integers: the plan of every rank can be made, printed and checked in
// one process.
#pragma once

#include <vector>

#include "annulus/pattern/items.hpp"

namespace annulus::pattern {

/// One hop of an exchange: send rows to one rank, receive rows from another; an empty interval means no message.
/// Rows are global and belong to one owner each, so an interval names them whatever block they are stored in.
struct Hop {
  int send_to = 0;
  int receive_from = 0;
  Interval send;         ///< rows passed on: of the own block, or of the block received at the hop before
  Interval receive;      ///< rows that arrive
  bool send_own = true;  ///< true: `send` is taken from the rank's own rows
  bool operator==(const Hop&) const = default;
};

/// Smallest stretch of the owner's rows that holds all rows of which the consumer's queries see any; empty where none
/// is seen. `owner` and `consumer` are disjoint. Costs O(pairs x offsets), whatever the number of rows.
Interval rows_read(const Layout& layout, Interval owner, Interval consumer);

/// Hops of `rank` in the neighbour ring p -> p + 1: at hop d (the d-th of the result, from 1) arrive rows of rank p -
/// d. A row is carried to hop d only when a rank at distance >= d from its owner reads it, so nothing is sent where
/// segments lie inside ranks, and (causal) nothing travels past the last rank. Trailing hops without any message on any
/// rank are left out: every rank gets equally many hops.
///
/// Worked example: P = 4, n = 16, one pair (8, 1), not causal, ranks hold 4 rows each: rank 1 reads rank 0's rows and
/// back, ranks 2 and 3 likewise. Rank 0's rows go 1 hop, rank 1's rows must travel 3 hops (by 2 and 3) to come round to
/// rank 0.
std::vector<Hop> ring_hops(const Layout& layout, const Partition& partition, int rank);

}  // namespace annulus::pattern
