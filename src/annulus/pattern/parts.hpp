// If the ranks' rows do not ascend from rank to rank, splits each rank's rows into two parts, so that the parts ascend.
#pragma once

#include <algorithm>
#include <optional>

#include "annulus/pattern/combs.hpp"
#include "annulus/pattern/granules.hpp"
#include "annulus/pattern/partition.hpp"

namespace annulus::pattern {

/// Divides a partition into parts. Each part has at most one interval of a document, and later parts have later rows of
/// the document. If the rows of documents follow one another from rank to rank, the result is `partition` itself. If
/// rows go up through the ranks and back down, as in zigzag, the result has 2 P parts, and each row keeps its stored
/// row in its rank's tensors. If the rank where the rows turn back has only one interval of a document, this interval
/// is cut near its middle, where `grid` allows. For all other partitions the result is empty.
///
/// Worked example: zigzag of 8 rows on 2 ranks is {[0, 2), [6, 8)}, {[2, 6)}. Its parts are [0, 2) and [2, 4) upwards,
/// then [4, 6) and [6, 8) downwards; each of the last two begins at stored row 2 of its rank.
std::optional<Partition> ordered_parts(const Documents& documents, const Partition& partition,
                                       const CutGrid& grid = {});

/// Returns the rank that holds part 0, 1, ... of 2 P parts (P is `ranks`): 0, 1, ..., P - 1, then P - 1, ..., 1, 0.
inline int rank_of_part(int part, int ranks) { return std::min(part, 2 * ranks - 1 - part); }

}  // namespace annulus::pattern
