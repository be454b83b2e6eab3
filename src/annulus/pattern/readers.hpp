// Who reads an owner's rows: runs of ranks that read the same of them.
//
// Seen from one owner, the other ranks fall into few runs: what is read changes only at a rank at which a segment that
// crosses the owner's rows begins or ends, or its rows jump or turn back. So O(pairs) runs stand for P readers, and
// owners that look alike (same length, same places in their segments) have the same runs.
// Worked example: dense causal, P = 4, contiguous: of owner 1 the runs are {0}: nothing, {2, 3}: all its rows.
#pragma once

#include <algorithm>
#include <vector>

#include "annulus/pattern/plan.hpp"

namespace annulus::pattern {

/// Ranks [begin, end) that read the same of an owner.
struct ReaderRun {
  Index begin = 0;
  Index end = 0;
  StoredRows together;  ///< rows that stand for those of all; none: those of the first rank do

  const StoredRows& rows(const Partition& readers) const {
    return together.count() > 0 ? together : readers[std::size_t(begin)];
  }
};

/// Where ranks hold fewer rows than a dilation, not every rank of a run reads every offset.
///   exact     then every rank is a run of its own
///   estimate  then what the first few ranks of a run read together stands for all
enum class Runs { exact, estimate };

/// FNV-1a of 64 bits, for keys of owners that look alike.
struct HashKey {
  std::size_t operator()(const std::vector<Index>& key) const {
    std::uint64_t hash = 1469598103934665603u;
    for (const Index value : key) hash = (hash ^ std::uint64_t(value)) * 1099511628211u;
    return std::size_t(hash ^ (hash >> 32));
  }
};

/// The segments that reach over an end of one of an owner's intervals; of a window, the rows that may see rows of the
/// interval, where they reach over an end: [interval][used pair].
using Crossings = std::vector<std::vector<std::vector<Interval>>>;

/// Arguments are not copied. `owners` hold the rows that are read, `readers` those that read them: a rank's queries are
/// among its rows, or after the rows of all owners.
class Readers {
 public:
  Readers(const Layout& layout, const Partition& owners, const Partition& readers, Runs kind);

  /// Some rank holds fewer rows than a dilation.
  bool are_small() const { return widen_ > 1; }

  /// No segment of the owner's rows reaches beyond them, so no rank reads any.
  Crossings crossings(Index owner) const;
  static bool is_any(const Crossings& crossings);

  /// The other ranks in the order in which a ring upwards visits them; a run ends at distance `up`.
  std::vector<ReaderRun> runs(Index owner, const Crossings& crossings, Index up) const;

  /// visit(rank, rows) for what each reader's intervals have of `rows`, ascending.
  template <class Visit>
  void visit_holders(Interval rows, Visit&& visit) const {
    auto one = std::partition_point(locations_.begin(), locations_.end(),
                                    [&](const Location& location) { return location.rows.end <= rows.begin; });
    for (; one != locations_.end() && one->rows.begin < rows.end; ++one)
      visit(one->rank, core::intersect(one->rows, rows));
  }

  /// All that rows_read() looks at, relative to the owner's intervals: owners with equal keys have equal runs that read
  /// equal rows. `coarse` keeps only what crosses and who reads anything.
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
  std::vector<Location> turns_;      // where inside a document the next or last rows are not a neighbour's, ascending
  Interval held_;                    // from the first to the last row that readers have: they have all between
  Index widen_ = 1;                  // ranks that together hold rows of every offset
};

}  // namespace annulus::pattern
