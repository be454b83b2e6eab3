// Where rows may be cut so that no granule of any comb is: matrix units add so many comb rows in one step, and results
// have the same bits for every number of ranks only if each step has the same rows.
//
// A granule is `granule` comb rows that follow one another, from the comb's start on; the last one of a comb may have
// less. Rows begin + k * unit of a document that begins at row `begin`, with unit = granule * lcm of all dilations, cut
// none: in front of them a comb of dilation r has k * unit / r rows, if segments are multiples of granule * r.
//
// Worked example: granules of 16, pairs (2048, 1), (4096, 2), (all, 4): unit 64. A document of 1000 rows may be cut at
// 64, 128, ..., 960 of its rows, and at its ends. With a pair (1000, 1) it may not be cut so: 1000 is no multiple of
// 16, and granules of the second segment begin at row 1000.
#pragma once

#include <string>

#include "annulus/pattern/partition.hpp"
#include "annulus/pattern/pattern.hpp"

namespace annulus::pattern {

/// Why rows cannot be cut between granules; empty: they can, if only at few places. Depends on the pattern alone, so
/// that the rows of a document are treated alike whatever else there is.
/// "segments of 1000 rows at dilation 1 are no multiples of 16 x 1".
std::string why_no_grid(const Pattern& pattern, Index granule);

/// The places where rows of a problem may be cut.
class CutGrid {
 public:
  /// Anywhere.
  CutGrid() = default;
  /// A granule of 1: anywhere. Else why_no_grid() has nothing against it. `documents` stay where they are.
  CutGrid(const Pattern& pattern, const Documents& documents, Index granule);

  /// The place next to `row`; the lower one of two. It rises with the row.
  Index nearest(Index row) const;
  /// Rows of a document between two places, or a number beyond all rows.
  Index unit() const { return unit_; }
  /// The most rows between two places that follow one another: a document's ends are places.
  Index widest() const;

 private:
  const Documents* documents_ = nullptr;
  Index unit_ = 1;
};

/// Each interval's ends moved to the next places. Ranks may be left without rows.
Partition on_grid(const Partition& partition, const CutGrid& grid);

/// Part `i` of `parts` of `rows`, counted in the order in which they are stored, as even as places allow; the ends of
/// their intervals are places. Worked example: unit 64, rows [128, 328), 2 parts: [0, 128) and [128, 200).
Interval even_part(const StoredRows& rows, Index parts, Index i, const CutGrid& grid = {});

/// Slice `i` of `slices` of every rank's rows, the highest rows first. Worked example: slice 0 of 2 of {[0, 5)},
/// {[5, 7), [9, 11)}, cut anywhere, is {[3, 5)}, {[9, 11)}.
Partition slice_of(const Partition& partition, Index slices, Index i, const CutGrid& grid = {});

}  // namespace annulus::pattern
