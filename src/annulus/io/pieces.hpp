// How rows are cut into collective calls.
#pragma once

#include <vector>

#include "annulus/core/types.hpp"

namespace annulus::io {

using core::Index;

/// Largest number of bytes one collective call moves per rank: so few that a thousand ranks' pieces, on a disk of 1
/// GB/s, take a small part of the stall timeout. (MPI counts, which are 32-bit, would allow 2 GiB.)
inline constexpr Index max_piece_bytes = Index(1) << 26;

/// Rows [rows.begin, rows.end) of batch entries [batch.begin, batch.end), kept at row `memory_row` of the host memory.
struct Box {
  core::Interval batch;
  core::Interval rows;
  Index memory_row = 0;
  bool operator==(const Box&) const = default;
};

/// Cuts rows (ascending, disjoint) of `batch` batch entries into pieces of at most `piece_bytes` bytes (one row of one
/// entry at least) and at most 256 boxes; one piece is one collective call.
/// Worked example: batch 2, rows 0..9, 100 bytes per row and entry, pieces of 900 bytes: rows 0..3, 4..7, 8..9 of both
/// entries.
std::vector<std::vector<Box>> cut_into_pieces(const std::vector<core::Interval>& rows, Index batch, Index row_bytes,
                                              Index piece_bytes);

}  // namespace annulus::io
