// Plans which rank sends which rows to which rank in each hop, and where the sums of the rows' gradients go. A plan
// of hops has only integers, so one process can make, print and check the hops of every rank. Each hop is made only
// when a caller asks for it.
#pragma once

#include "annulus/pattern/gradient_hops.hpp"
#include "annulus/pattern/routes.hpp"

namespace annulus::pattern {

/// One hop of one rank, which sends rows to a rank and receives rows from a rank. Empty packed rows are not sent.
struct Hop {
  int send_to = 0;
  int receive_from = 0;
  PackedRows send;
  PackedRows receive;
  bool send_own = true;  ///< true: `send` has rows of this rank; false: rows that the hop before brought
};

/// Says which rows a rank receives at distance d = 1, 2, ..., and from which rank. If `direction` is -1, rank + 1 and
/// rank + d take the place of rank - 1 and rank - d.
///   neighbours  from rank - 1: the rows of rank - d that this rank or a rank farther from their owner reads. So a row
///               is carried to distance d from its owner only if a rank at one of the distances d, d + 1, ..., `reach`
///               reads the row
///   owners      from rank - d: exactly the rows of rank - d that this rank reads
enum class From { neighbours, owners };

/// The hops of all ranks in one direction. Hops at the end that move no rows are left out. With `neighbours`, they are
/// left out only if they move no rows on any rank, so that all ranks have equally many hops. Hop h = 0, 1, ... has
/// distance d = h + 1. Arguments are not copied.
///
/// Worked example, neighbours: P = 4, n = 16, one pair (8, 1), not causal, 4 rows per rank: ranks 0 and 1 read each
/// other's rows, and so do ranks 2 and 3. Rank 0's rows travel 1 hop, to rank 1. Rank 1's rows travel 3 hops, through
/// ranks 2 and 3 to rank 0.
class Hops {
 public:
  /// Makes hops of the rows in `owners`. The ranks that read these rows compute with the rows in `readers`
  /// (readers.hpp). The hops go in `direction` (1 or -1) up to distance `reach`. With direction 1 and reach P - 1 they
  /// go once round the ring.
  Hops(const Layout& layout, const Partition& owners, const Partition& readers, From from, int direction, int reach);

  int count(int rank) const;  ///< number of the rank's hops
  Hop hop(int rank, int h) const;
  /// Returns the messages for the gradients of the rows that hop h brings. With `owners`, every rank's sums go straight
  /// back to the owner. With `neighbours`, sums travel on with the rows. The sums of a head begin at the first rank
  /// that reads the head. Sums of ranges that the next hop passes on unchanged go forward, all others to the owner.
  ///
  /// Worked example: P = 4, dense, not causal. Rank 0's rows reach rank 1 at hop 0. Rank 1's sums go forward to rank 2,
  /// which adds its own sums and sends the result to rank 3. Rank 3 adds its own sums and sends the result back to rank
  /// 0. These are 3 messages, as many as K and V need.
  GradientHop gradients(int rank, int h) const;

  /// The rank to which `rank` sends at hop h, and the rank from which `rank` receives at hop h.
  int send_to(int rank, int h) const { return at(rank, from_ == From::owners ? h + 1 : 1); }
  int receive_from(int rank, int h) const { return at(rank, from_ == From::owners ? -h - 1 : -1); }
  /// The rank whose rows hop h brings to `rank`.
  int owner(int rank, int h) const { return at(rank, -h - 1); }
  /// Number of (row, key/value head) pairs that `rank` receives at hop h, and that it sends.
  Index rows_received(int rank, int h) const;
  Index rows_sent(int rank, int h) const;
  /// True if the sums of a hop's rows go straight to the rows' owner, in one message.
  bool returns_straight() const { return from_ == From::owners; }
  /// True if hop h sends exactly the rows that the hop before it brought.
  bool passes_on(int rank, int h) const;

 private:
  int at(int rank, int distance) const { return core::wrap(rank + distance * routes_.direction(), routes_.ranks()); }
  GradientHop ring_gradients(int rank, int h) const;

  Routes routes_;
  From from_;
  mutable std::vector<int> counts_;  // [rank]; -1: not counted yet
};

}  // namespace annulus::pattern
