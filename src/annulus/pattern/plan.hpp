// Who sends which rows to whom, hop by hop. Pure integers: the plan of every rank can be made, printed and checked in
// one process.
#pragma once

#include <vector>

#include "annulus/pattern/items.hpp"

namespace annulus::pattern {

/// Rows of `owner` of which queries of `consumer` see any, in the form in which they travel; owner and consumer hold
/// different rows. Costs O(owner's intervals x pairs x offsets), whatever the number of rows: only a segment that
/// reaches over the end of an interval can hold rows of two ranks. Causal: only rows before some query of the consumer.
Cargo rows_read(const Layout& layout, const StoredRows& owner, const StoredRows& consumer);

/// The same rows, every part a whole comb's piece of one of the owner's intervals; in a layout of one pair no row lies
/// in two parts.
Cargo pieces_read(const Layout& layout, const StoredRows& owner, const StoredRows& consumer);

/// Cargo that holds all rows of both, which rows_read() made; every part of either lies inside one of its parts.
Cargo join(Cargo a, const Cargo& b);

/// One hop of an exchange: send rows to one rank, receive rows from another; cargo without rows means no message.
struct Hop {
  int send_to = 0;
  int receive_from = 0;
  Cargo send;
  Cargo receive;
  bool send_own = true;  ///< true: `send` is taken from the rank's own rows; false: from what the hop before brought
};

/// Hops of one direction, in order; idle ones at the end are left out (in the ring: idle on every rank, so that all
/// have equally many).
using Hops = std::vector<Hop>;

/// What the neighbour ring brings to the ranks at distance 1, 2, ... reach from `owner`: element d - 1 is what ranks at
/// distance d, d + 1, ... read of it; every part of one element lies inside a part of the one before.
std::vector<Cargo> rows_carried(const Layout& layout, const Partition& partition, int owner, int direction, int reach);

/// The neighbour ring: at hop d (from 1) a rank sends to rank + direction and receives rows of rank - d * direction. A
/// row is carried to hop d only when a rank at distance d, d + 1, ... or `reach` from its owner reads it.
///
/// Worked example: P = 4, n = 16, one pair (8, 1), not causal, ranks hold 4 rows each: rank 1 reads rank 0's rows and
/// back, ranks 2 and 3 likewise. Rank 0's rows go 1 hop, rank 1's rows must travel 3 hops (by 2 and 3) to come round to
/// rank 0.
Hops ring_hops(const Layout& layout, const Partition& partition, int rank, int direction, int reach);

/// Rotation: at hop d a rank receives straight from rank - d exactly what it reads, and sends to rank + d what that one
/// reads.
Hops rotation_hops(const Layout& layout, const Partition& partition, int rank);

}  // namespace annulus::pattern
