// Ranks whose rows do not follow one another, as ranks of a finer partition whose rows do.
#pragma once

#include <algorithm>
#include <optional>

#include "annulus/pattern/combs.hpp"
#include "annulus/pattern/granules.hpp"
#include "annulus/pattern/partition.hpp"

namespace annulus::pattern {

/// A partition in parts: of every document a part has one interval at most, and later parts have later rows. One in
/// which the rows of documents follow one another from rank to rank is its own parts. One that goes up through the
/// ranks and back down, as zigzag does, has 2 P of them, whose rows are stored where their rank has them; of any other
/// there are none. A rank that has one interval where the ranks turn is cut at a place of the grid.
///
/// Worked example: zigzag of 8 rows on 2 ranks is {[0, 2), [6, 8)}, {[2, 6)}. Its parts are [0, 2) and [2, 4), upwards,
/// then [4, 6) and [6, 8), downwards; both of the latter are stored from row 2 on.
std::optional<Partition> ordered_parts(const Documents& documents, const Partition& partition,
                                       const CutGrid& grid = {});

/// The rank that has a part of `ranks` ranks: 0, 1, ..., P - 1, then P - 1, ..., 1, 0.
inline int rank_of_part(int part, int ranks) { return std::min(part, 2 * ranks - 1 - part); }

}  // namespace annulus::pattern
