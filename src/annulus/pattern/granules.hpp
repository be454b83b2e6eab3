// Where rows may be cut without cutting a granule of any comb. Matrix units add `granule` comb rows in one step, and
// results have the same bits for every number of ranks only if each step has the same rows.
//
// A granule is `granule` consecutive comb rows, counted from the comb's start; the last granule of a comb may have
// fewer. In a document that begins at row `begin`, cuts at begin + k * spacing with spacing = granule * lcm of all
// dilations cut no granule: if segments are multiples of granule * r, a comb of dilation r has k * spacing / r rows
// before the cut, a multiple of `granule`.
//
// Worked example: granules of 16, pairs (2048, 1), (4096, 2), (all, 4): spacing 64. A document of 1000 rows may be cut
// at its rows 64, 128, ..., 960, and at its ends. With a pair (1000, 1) this is impossible: 1000 is no multiple of 16,
// and granules of the second segment begin at row 1000.
#pragma once

#include <string>

#include "annulus/pattern/partition.hpp"
#include "annulus/pattern/pattern.hpp"

namespace annulus::pattern {

/// Why rows cannot be cut between granules; empty if they can, even if there are few such cuts. Depends on the pattern
/// alone, so that the rows of a document are treated alike, whatever other documents there are. Example:
/// "segments of 1000 rows at dilation 1 are no multiples of 16 x 1".
std::string why_no_grid(const Pattern& pattern, Index granule);

/// The cuts: rows at which a problem may be cut.
class CutGrid {
 public:
  /// Every row is a cut.
  CutGrid() = default;
  /// If granule is 1, every row is a cut; otherwise why_no_grid() must be empty. `documents` must outlive the grid.
  CutGrid(const Pattern& pattern, const Documents& documents, Index granule);

  /// The cut nearest to `row`; the lower one if two are equally near. A higher row never gives a lower cut.
  Index nearest(Index row) const;
  /// Rows between two neighbouring cuts of a document. More than all rows: only the ends of documents are cuts.
  Index spacing() const { return spacing_; }
  /// The most rows between two neighbouring cuts; the ends of documents are cuts, too.
  Index widest() const;

 private:
  const Documents* documents_ = nullptr;
  Index spacing_ = 1;
};

/// Moves the ends of each interval to the nearest cuts. Ranks may end up without rows.
Partition on_grid(const Partition& partition, const CutGrid& grid);

/// Part `i` of `parts` of `rows`, as an interval of stored rows. Parts are as even as the cuts allow, and end at cuts.
/// Worked example: cuts every 64 rows, rows [128, 328), 2 parts: [0, 128) and [128, 200).
Interval even_part(const StoredRows& rows, Index parts, Index i, const CutGrid& grid = {});

/// Share `i` of `shares` of every rank's rows; share 0 has the highest rows. Worked example: share 0 of 2 of {[0, 5)},
/// {[5, 7), [9, 11)}, cut anywhere, is {[3, 5)}, {[9, 11)}.
Partition nth_share_of_rows(const Partition& partition, Index shares, Index i, const CutGrid& grid = {});

}  // namespace annulus::pattern
