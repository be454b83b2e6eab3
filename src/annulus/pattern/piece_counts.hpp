// Counts how many rows of an owner each rank reads, and how many each rank receives because it or a farther rank reads
// them. Makes no lists of rows.
//
// A piece is the rows of one comb in one interval of an owner. Except in windows, a rank reads a piece completely or
// not at all. So what a rank reads of an interval is one set of the interval's few pieces. For each pair, one visit of
// the rows that may read the interval finds these sets. Two intervals have equal counts if shifting one onto the other
// gives the same pieces, and the same sets from the farthest rank to the nearest. Therefore rows are counted only once
// for many intervals, for example those of thousands of short documents. Worked example: interval [4, 8) of a document
// [0, 16), pairs (all, 1) and (all, 4), one head. One piece has the rows 4 5 6 7, the other piece has row 4. With four
// ranks of four rows, not causal, each other rank reads both pieces. These are 4 rows, because the second piece lies
// inside the first one.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "annulus/pattern/readers.hpp"

namespace annulus::pattern {

/// Counts of an owner's rows by the distance d of the reading rank; element 0 has no meaning.
struct DistanceCounts {
  std::vector<Index> read, carried;  ///< (row, key/value head) pairs that the rank reads, and that it receives
  std::vector<bool> passes_on_all;   ///< whether the rank passes on exactly what it receives
};

/// Arguments are not copied. A rank's distance from the owner is the number of steps to it in direction `direction` (1
/// or -1). Only ranks up to distance `reach` count.
class PieceCounts {
 public:
  PieceCounts(const Layout& layout, const Readers& readers, int ranks, int direction, int reach);

  /// Returns nothing if ranks may read a part of a piece (windows), or if an interval may have over most_pieces pieces.
  std::optional<DistanceCounts> of(int owner, const StoredRows& rows, const Crossings& crossings);

 private:
  using Pieces = std::uint64_t;  // a set of pieces of the current interval
  static constexpr std::size_t most_pieces = 64;
  struct Piece {
    StridedRange rows;
    Index pair, offset;  ///< index of the used pair and of its offset; together they give the key/value heads
  };
  /// Counts of one set of pieces (`read`), and of this set together with all sets before it (`carried`). Sets are
  /// ordered by the farthest rank that reads them, the farthest first.
  struct Joined {
    Index read = 0, carried = 0;
    bool changes = false;  ///< whether the row ranges of `carried` differ from those of the sets before
  };
  bool find_readers(int owner, Interval rows, const std::vector<std::vector<Interval>>& crossings);
  bool find_pieces(Index pair, Interval segment, Interval rows);
  void find_readers(int owner, Index pair, Interval segment, Interval rows, Pieces all);
  void add(Interval rows, DistanceCounts& counts);
  const std::vector<Joined>& joined(Interval rows, const std::vector<Pieces>& order);
  PackedRows read(Interval rows, Pieces pieces) const;

  const Layout& layout_;
  const Readers& readers_;
  const int ranks_, direction_, reach_;
  std::vector<PairCombs> combs_;   // [used pair]
  std::vector<Piece> pieces_;      // of the current interval
  std::vector<Pieces> at_offset_;  // [i]: the piece at used offset i of the current segment; 0: none
  std::vector<Pieces> read_at_;    // [distance]: the pieces of the current interval that are read there
  std::vector<int> reading_;       // distances of the ranks that read any piece
  std::unordered_map<std::vector<Index>, std::vector<Joined>, HashKey> known_;
};

}  // namespace annulus::pattern
