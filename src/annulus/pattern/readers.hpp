// Which ranks read an owner's rows: runs of ranks that read the same rows.
//
// Seen from one owner, the other ranks form few runs. What they read changes only at a rank where a segment that
// crosses the owner's rows begins or ends, or where a document's rows do not go on at a neighbouring rank. So O(pairs)
// runs stand for P readers. Owners that look alike (same length, same position in their segments) have the same runs.
// Worked example: dense causal, P = 4, contiguous: for owner 1, the run {0} reads nothing, {2, 3} reads all its rows.
#pragma once

#include <algorithm>
#include <vector>

#include "annulus/pattern/plan.hpp"

namespace annulus::pattern {

/// Ranks [begin, end) that read the same rows of an owner.
struct ReaderRun {
  Index begin = 0;
  Index end = 0;
  StoredRows together;  ///< rows that stand for those of every rank; empty: the first rank's rows do

  const StoredRows& rows(const Partition& readers) const {
    return together.count() > 0 ? together : readers[std::size_t(begin)];
  }
};

/// What happens if ranks hold fewer rows than a dilation: then not every rank of a run reads every offset.
///   exact     every rank is a run of its own
///   estimate  the first few ranks of a run, taken together, stand for every rank of it
enum class Runs { exact, estimate };

/// FNV-1a of 64 bits, for the keys by which owners are compared.
struct HashKey {
  std::size_t operator()(const std::vector<Index>& key) const {
    std::uint64_t hash = 1469598103934665603u;
    for (const Index value : key) hash = (hash ^ std::uint64_t(value)) * 1099511628211u;
    return std::size_t(hash ^ (hash >> 32));
  }
};

/// The segments that cross an end of one of an owner's intervals: [interval][used pair]. For a window: the rows that
/// may see rows of the interval, if these rows cross an end of it.
using Crossings = std::vector<std::vector<std::vector<Interval>>>;

/// `owners` hold the rows that are read, `readers` the rows of the ranks that read them; a rank's queries are among
/// these rows or come after the rows of all owners. Arguments are not copied.
class Readers {
 public:
  Readers(const Layout& layout, const Partition& owners, const Partition& readers, Runs kind);

  /// Whether some rank holds fewer rows than a dilation.
  bool are_small() const { return widen_ > 1; }

  /// is_any(crossings) is false if no segment of the owner's rows goes beyond them: then no rank reads any.
  Crossings crossings(Index owner) const;
  static bool is_any(const Crossings& crossings);

  /// The other ranks in the order in which a ring upwards visits them; no run crosses distance `up`.
  std::vector<ReaderRun> runs(Index owner, const Crossings& crossings, Index up) const;

  /// Calls visit(rank, rows) for what each of the readers' intervals has of `rows`, ascending.
  template <class Visit>
  void visit_holders(Interval rows, Visit&& visit) const {
    auto one = std::partition_point(locations_.begin(), locations_.end(),
                                    [&](const Location& location) { return location.rows.end <= rows.begin; });
    for (; one != locations_.end() && one->rows.begin < rows.end; ++one)
      visit(one->rank, core::intersect(one->rows, rows));
  }

  /// All that rows_read() depends on, relative to the owner's intervals: owners with equal keys have equal runs, which
  /// read equal rows. `coarse` keeps only which segments cross, and which runs read any row.
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
  std::vector<Index> idle_cuts_;     // ranks at which a series of ranks without rows begins or ends
  std::vector<Location> turns_;      // pieces where a document's rows do not pass through neighbours, ascending
  Interval held_;                    // from the readers' first row to their last; they have all rows between
  Index widen_ = 1;                  // ranks that together hold rows of every offset
};

}  // namespace annulus::pattern
