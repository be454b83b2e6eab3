// Finds the ranks that read an owner's rows, as runs. A run is a range of ranks that read the same rows.
//
// For one owner, the other ranks form few runs. A new run begins only where a segment or a window that crosses an end
// of the owner's rows begins or ends, where a document's rows do not continue on a neighbouring rank, or where ranks
// have no rows. So O(pairs) runs stand for P readers. Owners that look alike (in length and position) have similar
// runs. Worked example: dense causal, P = 5, contiguous: run {0} reads no rows of owner 1; runs {2, 3} and {4} read all
// of them.
#pragma once

#include <algorithm>
#include <vector>

#include "annulus/pattern/plan.hpp"

namespace annulus::pattern {

/// Ranks [begin, end) that read the same rows of an owner.
struct ReaderRun {
  Index begin = 0;
  Index end = 0;
  StoredRows together;  ///< stands for the rows of each rank of the run; if empty, the first rank's rows stand for them

  const StoredRows& rows(const Partition& readers) const {
    return together.count() > 0 ? together : readers[std::size_t(begin)];
  }
};

/// Says how to treat intervals with fewer rows than a dilation. With such intervals, not every rank of a run has rows
/// at every offset.
///   exact     every rank is a run of its own
///   estimate  the rows of the first few ranks of a run, taken together, stand for every rank of the run
enum class Runs { exact, estimate };

/// A hash like FNV-1a, but of whole numbers instead of bytes, for the keys by which owners are compared.
struct HashKey {
  std::size_t operator()(const std::vector<Index>& key) const {
    std::uint64_t hash = 1469598103934665603u;
    for (const Index value : key) hash = (hash ^ std::uint64_t(value)) * 1099511628211u;
    return std::size_t(hash ^ (hash >> 32));
  }
};

/// [interval][used pair]: the segments that cross an end of this interval of an owner. For a window: the rows that may
/// see rows of the interval, if some of these viewers lie outside the interval.
using Crossings = std::vector<std::vector<std::vector<Interval>>>;

/// `owners` has the rows that are read, `readers` the rows that the reading ranks compute with. No rank's rows in
/// `readers` are rows of another rank in `owners`. Arguments are not copied.
class Readers {
 public:
  Readers(const Layout& layout, const Partition& owners, const Partition& readers, Runs kind);

  /// True if some interval of a rank has fewer rows than a dilation (or than the pair's segment, if the segment is
  /// shorter).
  bool are_small() const { return widen_ > 1; }

  /// The segments that cross an end of the owner's intervals. If there are none, is_any() is false, and no other rank
  /// reads the owner's rows.
  Crossings crossings(Index owner) const;
  static bool is_any(const Crossings& crossings);

  /// Returns runs of all ranks except the owner, in the order owner + 1, owner + 2, ... round the ring. No run has
  /// both ranks up to distance `up` and ranks beyond this distance.
  std::vector<ReaderRun> runs(Index owner, const Crossings& crossings, Index up) const;

  /// Calls visit(rank, part) for each interval of a reader that has a part of `rows`, ascending.
  template <class Visit>
  void visit_holders(Interval rows, Visit&& visit) const {
    auto one = std::partition_point(locations_.begin(), locations_.end(),
                                    [&](const Location& location) { return location.rows.end <= rows.begin; });
    for (; one != locations_.end() && one->rows.begin < rows.end; ++one)
      visit(one->rank, core::intersect(one->rows, rows));
  }

  /// Returns a key of all that rows_read() depends on, relative to the owner's intervals. If owners have equal keys and
  /// equally many runs, run i of each owner reads equally many rows. A `coarse` key says only how many segments cross
  /// the intervals, and whether each run reads rows of all, some or no offsets (windows: any or no rows).
  std::vector<Index> key(Index owner, const std::vector<ReaderRun>& runs, const Crossings& crossings,
                         bool coarse = false) const;

 private:
  struct Location {
    Interval rows;
    Index rank;
  };
  Index documents_end() const { return layout_.documents.back(); }
  Index rank_of(Index row) const;
  StoredRows joined(Index begin, Index end) const;
  void append_cuts(Interval segment, std::vector<Index>& cuts) const;
  void append_window_cuts(const Pair& pair, Interval viewers, Interval own, std::vector<Index>& cuts) const;
  void append_hits(Interval segment, Interval own, Index r, const StoredRows& reader, bool coarse,
                   std::vector<Index>& key) const;
  void append_window_key(const Pair& pair, Interval viewers, Interval own, const std::vector<ReaderRun>& runs,
                         bool coarse, std::vector<Index>& key) const;

  const Layout& layout_;
  const Partition& owners_;
  const Partition& readers_;
  const Runs kind_;
  Interval pairs_;
  Index ranks_;
  std::vector<Location> locations_;  // all intervals of the readers, ascending
  std::vector<Index> idle_cuts_;     // ranks at which ranks without rows begin or end
  std::vector<Location> turns_;      // pieces of documents for which is_passed() is false, ascending
  Interval held_;                    // from the readers' first row to their last row; readers hold all rows between
  Index widen_ = 1;                  // how many neighbouring ranks together hold rows of every offset
};

}  // namespace annulus::pattern
