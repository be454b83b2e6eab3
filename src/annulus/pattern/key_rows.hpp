// Finds the location of each global row of each head in a block of keys and values.
#pragma once

#include <utility>
#include <vector>

#include "annulus/pattern/strided_ranges.hpp"

namespace annulus::pattern {

/// A block has one of two layouts:
///   raw     (rows, Hkv, D): all heads of a row side by side, as a rank holds its own rows; a "stored row" is the index
///           of a row in the block
///   packed ((row, head) pairs, D): interval after interval, head after head, range after range, as rows travel in a
///           message; a "stored row" is the index of a (row, head) pair in the block
class KeyRows {
 public:
  /// A range, and the stored row of its first row. Its other rows are stored after the first row without gaps.
  struct StoredRange {
    StridedRange range;
    Index stored = 0;
  };
  struct StoredInterval {
    Interval rows;
    std::vector<std::vector<StoredRange>> heads;  ///< packed: [Hkv]; raw: one element for all heads
  };

  KeyRows() = default;
  /// A raw block that stores these rows.
  static KeyRows raw(const StoredRows& rows);
  /// A raw block that stores intervals of rows, in any order. Each element of `locations` is an interval and the
  /// stored row at which the interval begins.
  static KeyRows raw(std::vector<std::pair<Interval, Index>> locations);
  static KeyRows packed(const PackedRows& packed);

  bool is_packed() const { return packed_; }
  /// The intervals of the block, ascending and disjoint.
  const std::vector<StoredInterval>& owned() const { return owned_; }
  /// Number of rows (raw) or of (row, head) pairs (packed) in the block.
  Index count() const { return count_; }

  /// Index of the first owner interval that ends after global row `row`; owned().size() if there is none.
  std::size_t first_ending_after(Index row) const;
  /// Returns the stored range of owner interval `i` that has all rows of `piece` for key/value head `kv`, or nullptr.
  const StoredRange* find(std::size_t i, Index kv, const StridedRange& piece) const;

 private:
  bool packed_ = false;
  std::vector<StoredInterval> owned_;
  Index count_ = 0;
};

}  // namespace annulus::pattern
