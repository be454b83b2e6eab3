// How far every owner's rows travel in one direction of a ring, and what each rank on their way reads of them.
//
// A nearer rank passes on all that a farther one reads: from the far end back, what is carried to a rank is joined from
// what it reads itself and what is carried on. Both change at a few distances only (readers.hpp), the legs; owners that
// look alike are evaluated once. So the rows that any rank moves in any hop are looked up, and only hops that are
// executed or printed are spelled out.
#pragma once

#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "annulus/pattern/piece_counts.hpp"

namespace annulus::pattern {

/// Distances count from 1 in steps of `direction` (1 or -1), up to `reach`. Layout and partitions are not copied.
class Routes {
 public:
  /// Routes of the rows of `owners`; the ranks compute with the rows in `readers`.
  Routes(const Layout& layout, const Partition& owners, const Partition& readers, int direction, int reach);

  int ranks() const { return int(readers_.size()); }
  int direction() const { return direction_; }

  // (row, key/value head) pairs of an owner's rows: that the rank at a distance reads, that are carried there.
  Index rows_read(int owner, int distance) const;
  Index rows_carried(int owner, int distance) const;
  /// The rank at a distance passes on exactly what it was brought.
  bool passes_on_all(int owner, int distance) const;
  /// The largest distance to which anything of any owner is carried.
  int farthest() const;

  // The same spelled out; empty beyond the reach.
  PackedRows read(int owner, int distance) const;
  PackedRows carried(int owner, int distance) const;
  /// What ranks up to this distance read.
  PackedRows read_until(int owner, int distance) const;

 private:
  /// Legs of owners that look alike, from the nearest on.
  struct Kind {
    std::vector<Index> read, carried;
    std::vector<bool> passes_on_all;
  };
  struct Owner {
    bool known = false;
    const Kind* kind = nullptr;  ///< none: nothing of it is read
    std::vector<int> ends;       ///< distances of its legs
  };
  struct Legs {
    int owner = -1;
    std::vector<int> ends;  ///< distances
    std::vector<PackedRows> carried, read_until;
  };
  const Readers& lookup() const;
  const Owner& owner(int q) const;
  static std::size_t leg(const std::vector<int>& ends, int distance);
  std::vector<int> ends_of(int q, const std::vector<ReaderRun>& runs) const;
  std::vector<ReaderRun> runs(int q, const Crossings& crossings) const;
  Legs spell_out(int q, const std::vector<ReaderRun>& runs) const;
  std::unique_ptr<Kind> count(int q, const std::vector<ReaderRun>& runs) const;
  /// The same of an owner of many intervals, as distances show it; false: only spelling it out can tell.
  bool count_pieces(int q, const Crossings& crossings) const;
  const Kind& kind(int q, const std::vector<ReaderRun>& runs, const Crossings& crossings) const;
  const Legs& keep(Legs legs) const;
  const Legs& legs(int q) const;

  const Layout& layout_;
  const Partition& owners_;
  const Partition& readers_;
  const int direction_;
  const int reach_;
  mutable std::optional<PieceCounts> pieces_;  // of lookup_
  mutable std::optional<Readers> lookup_;      // made when first asked: who plans thousands of ranks may never ask
  mutable std::vector<Owner> known_;
  mutable std::unordered_map<std::vector<Index>, std::unique_ptr<Kind>, HashKey> kinds_;
  mutable std::vector<std::unique_ptr<Kind>> singular_;  // of owners with more intervals than a key should name
  mutable std::vector<Legs> recent_;                     // of the owners asked for last: a hop asks for two
  mutable int farthest_ = -1;
};

}  // namespace annulus::pattern
