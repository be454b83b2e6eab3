#include "annulus/io/pieces.hpp"

#include <algorithm>

namespace annulus::io {
namespace {

using core::Interval;

// Combining boxes into one selection takes time quadratic in their number.
constexpr std::size_t max_boxes = 256;

}  // namespace

std::vector<std::vector<Box>> cut_into_pieces(const std::vector<Interval>& rows, Index batch, Index row_bytes,
                                              Index piece_bytes) {
  // Where one row of all entries is too large for a piece, the entries are cut, and then every row stands alone.
  const Index entries = std::clamp<Index>(piece_bytes / row_bytes, 1, batch);
  const Index most_rows = entries < batch ? 1 : std::max<Index>(1, piece_bytes / (batch * row_bytes));
  std::vector<std::vector<Box>> pieces;
  Index free_rows = 0, memory_row = 0;
  for (const Interval& interval : rows) {
    for (Index row = interval.begin; row < interval.end;) {
      if (free_rows == 0 || pieces.back().size() == max_boxes) {
        pieces.emplace_back();
        free_rows = most_rows;
      }
      const Interval taken{row, std::min(interval.end, row + free_rows)};
      for (Index b = 0; b < batch; b += entries) {
        if (b > 0) pieces.emplace_back();
        pieces.back().push_back({{b, std::min(batch, b + entries)}, taken, memory_row});
      }
      free_rows -= taken.size();
      memory_row += taken.size();
      row = taken.end;
    }
  }
  return pieces;
}

}  // namespace annulus::io
