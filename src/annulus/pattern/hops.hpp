// Who sends which rows to whom, hop by hop, and where the sums of their gradients go. Pure integers: the hops of every
// rank can be made, printed and checked in one process, each when it is asked for.
#pragma once

#include "annulus/pattern/gradient_hops.hpp"
#include "annulus/pattern/routes.hpp"

namespace annulus::pattern {

/// One hop of an exchange: send rows to one rank, receive rows from another; no packed rows mean no message.
struct Hop {
  int send_to = 0;
  int receive_from = 0;
  PackedRows send;
  PackedRows receive;
  bool send_own = true;  ///< true: `send` is taken from the rank's own rows; false: from what the hop before brought
};

/// From whom a rank receives at hop d = 1, 2, ...
///   neighbours  from rank - direction, rows of rank - d * direction: what every rank further on reads of them, too. A
///               row is carried to hop d only when a rank at distance d, d + 1, ... or `reach` from its owner reads it
///   owners      from rank - d exactly what it reads, and it sends to rank + d what that one reads
enum class From { neighbours, owners };

/// The hops of all ranks in one direction; idle ones at the end are left out (between neighbours: idle on every rank,
/// so that all have equally many). Counted from 0: hop h is distance d = h + 1. Arguments are not copied.
///
/// Worked example, neighbours: P = 4, n = 16, one pair (8, 1), not causal, ranks hold 4 rows each: rank 1 reads rank
/// 0's rows and back, ranks 2 and 3 likewise. Rank 0's rows go 1 hop, rank 1's rows must travel 3 hops (by 2 and 3) to
/// come round to rank 0.
class Hops {
 public:
  /// Once round, or as far as `reach`.
  Hops(const Layout& layout, const Partition& partition, From from);
  Hops(const Layout& layout, const Partition& partition, From from, int direction, int reach);
  /// Hops of the rows in `owners`, which ranks read that compute with the rows in `readers` (readers.hpp).
  Hops(const Layout& layout, const Partition& owners, const Partition& readers, From from);
  Hops(const Layout& layout, const Partition& owners, const Partition& readers, From from, int direction, int reach);

  int count(int rank) const;
  Hop hop(int rank, int h) const;
  /// What becomes of the gradients of the rows that hop h brings. From owners: every rank's sums go straight back. From
  /// neighbours: sums travel with the rows; a head's parts travel only after the first rank that reads any of that
  /// head, and parts that are passed on unchanged go forward, all others go back.
  ///
  /// Worked example: P = 4, dense, not causal. Rank 0's rows reach rank 1 at hop 1, whose sums go forward to rank 2,
  /// then with its own added to rank 3, and from there back: 3 messages, as many as K and V needed.
  GradientHop gradients(int rank, int h) const;

  /// Ranks to which and from which rows go at hop h.
  int send_to(int rank, int h) const { return at(rank, from_ == From::owners ? h + 1 : 1); }
  int receive_from(int rank, int h) const { return at(rank, from_ == From::owners ? -h - 1 : -1); }
  /// The rank whose rows hop h brings.
  int owner(int rank, int h) const { return at(rank, -h - 1); }
  /// (row, key/value head) pairs that hop h brings and sends.
  Index rows_received(int rank, int h) const;
  Index rows_sent(int rank, int h) const;
  /// The sums of a hop's rows go to their owner at once, in one message.
  bool returns_straight() const { return from_ == From::owners; }
  /// Hop h sends exactly what the hop before brought.
  bool passes_on(int rank, int h) const;

 private:
  int at(int rank, int distance) const { return core::wrap(rank + distance * routes_.direction(), routes_.ranks()); }
  GradientHop ring_gradients(int rank, int h) const;

  Routes routes_;
  From from_;
  mutable std::vector<int> counts_;  // of the ranks; -1: not yet counted
};

}  // namespace annulus::pattern
