// Divides the rows of one document among ranks, by work.
#pragma once

#include <vector>

#include "annulus/pattern/counts.hpp"

namespace annulus::pattern {

/// A rank's share of the work on a document.
struct WorkPart {
  Index rank = 0;
  Count work = 0;
};

/// The work by which rows are dealt to ranks: kept (query, key, head) triples, plus one per row, so that every row
/// counts as some work.
inline Count work_of(const KeptCounts& kept, Interval rows) { return kept.of(rows) + rows.size(); }

/// Cuts the rows of a document so that each part's rank gets the part's work. Appends the rows to rows[rank],
/// ascending. If not causal, the parts are one interval after another. If causal, each part takes equally many rows
/// from both ends of the rows that earlier parts have left, so that parts of equal work have about equally many rows.
/// The last part gets the rows in the middle. The works of all parts must sum to the document's work. Each cut is found
/// by a search, exact to the row.
/// Worked example: 16 causal rows of one head, dense, two equal parts: first [0, 4) and [12, 16), then [4, 12).
void cut_document(const KeptCounts& kept, bool causal, Interval document, const std::vector<WorkPart>& parts,
                  std::vector<std::vector<Interval>>& rows);

}  // namespace annulus::pattern
