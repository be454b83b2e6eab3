// Finds where rows may be cut without cutting a granule of any comb. A matrix unit adds `granule` comb rows in one
// operation. Results have the same bits for every number of ranks only if each operation always adds the same rows.
//
// A granule is `granule` consecutive comb rows, counted from the comb's start; the last granule of a comb may have
// fewer. Let spacing = granule * lcm of all dilations, and let the length of every segment of dilation r be a multiple
// of granule * r. In a document that begins at row `begin`, cuts at begin + k * spacing then cut no granule. Proof: if
// such a cut lies inside a segment of dilation r, the segment has a multiple of granule * r rows before the cut. So
// each comb of the segment has a multiple of `granule` rows before the cut.
//
// Worked example: granules of 16, pairs (2048, 1), (4096, 2), (all, 4): spacing 64. A document of 1000 rows may be cut
// at its rows 64, 128, ..., 960, and at its ends. With a pair (1000, 1) such cuts are impossible, because 1000 is not
// a multiple of 16, and granules of the second segment begin at row 1000.
#pragma once

#include <string>

#include "annulus/pattern/partition.hpp"
#include "annulus/pattern/pattern.hpp"

namespace annulus::pattern {

/// Returns why rows cannot be cut between granules; an empty text if they can be cut there, perhaps only at few rows.
/// The answer depends on the pattern alone, so other documents do not change how a document's rows are treated.
/// Example: "segments of 1000 rows at dilation 1 are no multiples of 16 x 1".
std::string why_no_grid(const Pattern& pattern, Index granule);

/// The rows at which a problem may be cut. We call these rows cuts.
class CutGrid {
 public:
  /// Every row is a cut.
  CutGrid() = default;
  /// If granule is 1, every row is a cut; otherwise why_no_grid() must be empty. `documents` must outlive the grid.
  CutGrid(const Pattern& pattern, const Documents& documents, Index granule);

  /// The cut nearest to `row`; the lower one if two are equally near. A higher row never gives a lower cut.
  Index nearest(Index row) const;
  /// Number of rows between neighbouring cuts of a document. If a document has fewer rows, only its ends are cuts.
  Index spacing() const { return spacing_; }
  /// Returns the largest number of rows between neighbouring cuts. Ends of documents and rows of gaps are cuts.
  Index widest() const;

 private:
  const Documents* documents_ = nullptr;
  Index spacing_ = 1;
};

/// Moves the ends of each interval to the nearest cuts. The new partition may have ranks without rows.
Partition on_grid(const Partition& partition, const CutGrid& grid);

/// Divides `rows` into `parts` parts, as equal as the cuts allow, and returns part `i` as an interval of positions in
/// `rows` (position 0 is the first of these rows). Parts end at cuts.
/// Worked example: cuts every 64 rows, rows [128, 328), 2 parts: [0, 128) and [128, 200).
Interval even_part(const StoredRows& rows, Index parts, Index i, const CutGrid& grid = {});

/// Divides every rank's rows into `shares` parts and returns part `i` of each rank. Part 0 has the last rows.
/// Worked example: {[0, 5)}, {[5, 7), [9, 11)} in 2 parts, cut anywhere: part 0 is {[3, 5)}, {[9, 11)}.
Partition nth_share_of_rows(const Partition& partition, Index shares, Index i, const CutGrid& grid = {});

}  // namespace annulus::pattern
