// How far every owner's rows travel in one direction of a ring, and what each rank on the way reads of them.
//
// A nearer rank passes on all that farther ranks read. So the rows carried to a rank are the rows that it reads itself,
// joined with the rows carried beyond it. They are computed from the farthest rank back. What is read, and what is
// carried, change at few distances only (readers.hpp); a leg is a range of distances without a change. Owners that look
// alike are counted once. So numbers of rows are looked up, and rows are listed only for hops that are executed or
// printed.
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

  // Number of (row, key/value head) pairs of an owner's rows that the rank at a distance reads, and that it receives.
  Index rows_read(int owner, int distance) const;
  Index rows_carried(int owner, int distance) const;
  /// Whether the rank at a distance passes on exactly what it received.
  bool passes_on_all(int owner, int distance) const;
  /// The largest distance to which any row of any owner is carried.
  int farthest() const;

  // The rows themselves; empty beyond the reach.
  PackedRows read(int owner, int distance) const;
  PackedRows carried(int owner, int distance) const;
  /// What the ranks up to this distance read together.
  PackedRows read_until(int owner, int distance) const;

 private:
  /// Legs of owners that look alike, the nearest first.
  struct OwnerClass {
    std::vector<Index> read, carried;
    std::vector<bool> passes_on_all;
  };
  struct Owner {
    bool known = false;
    const OwnerClass* owner_class = nullptr;  ///< null: no rank reads its rows
    std::vector<int> ends;                    ///< [leg]: the first distance after it
  };
  struct Legs {
    int owner = -1;
    std::vector<int> ends;  ///< [leg]: the first distance after it
    std::vector<PackedRows> carried, read_until;
  };
  const Readers& lookup() const;
  const Owner& owner(int q) const;
  static std::size_t leg(const std::vector<int>& ends, int distance);
  std::vector<int> ends_of(int q, const std::vector<ReaderRun>& runs) const;
  std::vector<ReaderRun> runs(int q, const Crossings& crossings) const;
  Legs spell_out(int q, const std::vector<ReaderRun>& runs) const;
  std::unique_ptr<OwnerClass> count(int q, const std::vector<ReaderRun>& runs) const;
  /// Counts for an owner of many intervals, distance by distance; false if its rows must be listed instead.
  bool count_pieces(int q, const Crossings& crossings) const;
  const OwnerClass& owner_class(int q, const std::vector<ReaderRun>& runs, const Crossings& crossings) const;
  const Legs& keep(Legs legs) const;
  const Legs& legs(int q) const;

  const Layout& layout_;
  const Partition& owners_;
  const Partition& readers_;
  const int direction_;
  const int reach_;
  mutable std::optional<PieceCounts> pieces_;  // it uses lookup_
  mutable std::optional<Readers> lookup_;      // made at first use: a plan for thousands of ranks may not need it
  mutable std::vector<Owner> known_;
  mutable std::unordered_map<std::vector<Index>, std::unique_ptr<OwnerClass>, HashKey> classes_;
  mutable std::vector<std::unique_ptr<OwnerClass>> singular_;  // for owners with more intervals than named_intervals
  mutable std::vector<Legs> recent_;                           // for the owners used last; one hop uses two owners
  mutable int farthest_ = -1;
};

}  // namespace annulus::pattern
