// Documents whose rows several intervals hold: what ranks read of each other's rows lies in these.
#pragma once

#include <optional>

#include "annulus/pattern/combs.hpp"
#include "annulus/pattern/partition.hpp"

namespace annulus::pattern {

/// Rows of a document in one interval of a rank.
struct SharedPiece {
  Interval document;
  Interval rows;
  Index rank = 0;
};

/// The pieces of all documents that more than one interval holds, ascending. Costs a search for each interval.
/// Worked example: documents [0, 4) [4, 10), ranks with [0, 6) and [6, 10): [4, 6) of rank 0, [6, 10) of rank 1.
std::vector<SharedPiece> shared_pieces(const Documents& documents, const Partition& partition);

/// The first document whose rows do not follow one another from rank to rank, each having one interval of them at most;
/// none: all do.
std::optional<Interval> document_out_of_order(const std::vector<SharedPiece>& pieces);

}  // namespace annulus::pattern
