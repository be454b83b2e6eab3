// Cuts one document over ranks, by work.
#pragma once

#include <vector>

#include "annulus/pattern/counts.hpp"

namespace annulus::pattern {

/// Work of a rank on a document.
struct WorkPart {
  Index rank = 0;
  Count work = 0;
};

/// Rows are dealt to ranks by this cost: kept triples plus one per row, so that rows that see nothing count, too.
inline Count work_of(const KeptCounts& kept, Interval rows) { return kept.of(rows) + rows.size(); }

/// Cuts the rows of a document so that each part's rank gets the part's work; appends the rows to rows[rank],
/// ascending. Not causal: one interval after another. Causal: from both ends to the middle, as many rows from each end,
/// so that parts of equal work also have equally many rows; the last part is the middle. The works of all parts must
/// sum to the document's work. A search finds each cut, exact to the row.
/// Worked example: 16 causal rows of one head, dense, two equal parts: [0, 4) and [12, 16); [4, 12).
void cut_document(const KeptCounts& kept, bool causal, Interval document, const std::vector<WorkPart>& parts,
                  std::vector<std::vector<Interval>>& rows);

}  // namespace annulus::pattern
