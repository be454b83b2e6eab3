// Plans how far every owner's rows travel in one direction of a ring, and which of them each rank on the way reads.
//
// A rank passes on all rows that farther ranks read. So the rows carried (sent) to a rank are the rows that it reads
// itself, joined with the rows carried beyond it. Carried rows are computed from the farthest rank back to the nearest.
// The rows that are read and those that are carried change at only a few distances (readers.hpp). A leg is a range of
// distances without such a change. Owners with the same key (Readers::key()) have equal counts, so only one of them is
// counted. Rows are listed only for hops that are executed or printed, and to count rows where PieceCounts is not used.
#pragma once

#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "annulus/pattern/piece_counts.hpp"

namespace annulus::pattern {

/// A rank's distance from an owner is 1, 2, ... `reach` steps of `direction` (1 or -1). Arguments are not copied.
class Routes {
 public:
  /// Makes routes for the rows of K and V in `owners`. `readers` has the rows with which each rank computes.
  Routes(const Layout& layout, const Partition& owners, const Partition& readers, int direction, int reach);
  Routes(Routes&&) = delete;  // pieces_ refers to lookup_

  int ranks() const { return int(readers_.size()); }
  int direction() const { return direction_; }

  // Numbers of (row, key/value head) pairs of an owner that the rank at this distance reads, and that it receives.
  Index rows_read(int owner, int distance) const;
  Index rows_carried(int owner, int distance) const;
  /// True if the rank at a distance passes on exactly the rows that it received.
  bool passes_on_all(int owner, int distance) const;
  /// The largest distance to which any row of any owner is carried.
  int farthest() const;

  // The rows that rows_read() and rows_carried() count; none beyond the reach.
  PackedRows read(int owner, int distance) const;
  PackedRows carried(int owner, int distance) const;
  /// The rows that any rank up to this distance reads.
  PackedRows read_until(int owner, int distance) const;

 private:
  /// Counts for the legs of owners that look alike, the nearest leg first.
  struct OwnerClass {
    std::vector<Index> read, carried;
    std::vector<bool> passes_on_all;
  };
  struct Owner {
    bool known = false;
    const OwnerClass* owner_class = nullptr;  ///< null: no rank reads rows of this owner
    std::vector<int> ends;                    ///< [leg]: the first distance after the leg
  };
  struct Legs {
    int owner = -1;
    std::vector<int> ends;  ///< [leg]: the first distance after the leg
    std::vector<PackedRows> carried, read_until;
  };
  const Readers& lookup() const;
  const Owner& owner(int q) const;
  static std::size_t leg(const std::vector<int>& ends, int distance);
  std::vector<int> ends_of(int q, const std::vector<ReaderRun>& runs) const;
  std::vector<ReaderRun> runs(int q, const Crossings& crossings) const;
  Legs spell_out(int q, const std::vector<ReaderRun>& runs) const;
  std::unique_ptr<OwnerClass> count(int q, const std::vector<ReaderRun>& runs) const;
  /// Counts the rows of an owner of many intervals, distance by distance. Returns false if the rows must be listed
  /// instead.
  bool count_pieces(int q, const Crossings& crossings) const;
  const OwnerClass& owner_class(int q, const std::vector<ReaderRun>& runs, const Crossings& crossings) const;
  const Legs& keep(Legs legs) const;
  const Legs& legs(int q) const;

  const Layout& layout_;
  const Partition& owners_;
  const Partition& readers_;
  const int direction_;
  const int reach_;
  mutable std::optional<PieceCounts> pieces_;  // made at first use; refers to lookup_
  mutable std::optional<Readers> lookup_;      // made at first use; a plan for thousands of ranks may not need it
  mutable std::vector<Owner> known_;
  mutable std::unordered_map<std::vector<Index>, std::unique_ptr<OwnerClass>, HashKey> classes_;
  mutable std::vector<std::unique_ptr<OwnerClass>> singular_;  // for owners of too many intervals for a key in classes_
  mutable std::vector<Legs> recent_;                           // for the owners used last; one hop uses two owners
  mutable int farthest_ = -1;
};

}  // namespace annulus::pattern
