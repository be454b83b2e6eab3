// One document cut by work over ranks.
#pragma once

#include <vector>

#include "annulus/pattern/counts.hpp"

namespace annulus::pattern {

/// Work of a rank on a document.
struct WorkPart {
  Index rank = 0;
  Count work = 0;
};

/// What rows cost to be dealt by: their kept triples, and one for each row, so that rows which see nothing count, too.
inline Count work_of(const KeptCounts& kept, Interval rows) { return kept.of(rows) + rows.size(); }

/// Cuts the rows of a document so that the rank of each part gets that much work, and appends them to rows[rank],
/// ascending. Not causal: one interval after another. Causal: from both ends to the middle, equally many rows of each,
/// so that parts of equal work have as many rows, too, and the last part is the middle. The parts together are the
/// document's work; each cut is found by search, to the row.
/// Worked example: 16 causal rows of one head, dense, two equal parts: [0, 4) and [12, 16); [4, 12).
void cut_document(const KeptCounts& kept, bool causal, Interval document, const std::vector<WorkPart>& parts,
                  std::vector<std::vector<Interval>>& rows);

}  // namespace annulus::pattern
