// Finds documents whose rows lie in several intervals. Only in these documents can ranks read rows of other ranks.
#pragma once

#include <optional>

#include "annulus/pattern/combs.hpp"
#include "annulus/pattern/partition.hpp"

namespace annulus::pattern {

/// The rows of a document that lie in one interval of a rank.
struct SharedPiece {
  Interval document;
  Interval rows;
  Index rank = 0;
};

/// The pieces of all documents that lie in more than one interval, ascending. Needs two searches per interval.
/// Worked example: documents [0, 4) [4, 10), ranks with [0, 6) and [6, 10): [4, 6) of rank 0, [6, 10) of rank 1.
std::vector<SharedPiece> shared_pieces(const Documents& documents, const Partition& partition);

/// Returns the first document that has two pieces on one rank, or pieces that do not ascend from rank to rank; empty if
/// there is no such document.
std::optional<Interval> document_out_of_order(const std::vector<SharedPiece>& pieces);

}  // namespace annulus::pattern
