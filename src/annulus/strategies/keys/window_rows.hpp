// The rows that a rank of `onesided` exposes to others: K and V, and the sums of their gradients, in the same form.
#pragma once

#include "annulus/comm/window.hpp"
#include "annulus/strategies/backward_computation.hpp"
#include "annulus/strategies/packed_rows.hpp"

namespace annulus::strategies {

/// All rows of a rank as its window stores them: interval after interval, head after head. Rows of one head that follow
/// one another are contiguous. So a dense interval is read in kv_parts() * Hkv long pieces, not in one piece per row.
pattern::PackedRows window_rows(const Problem& problem, const pattern::StoredRows& rows);

/// Copies the rank's K and V into the window.
void fill_window(const Problem& problem, const pattern::StoredRows& rows, const KeyBlock& own, comm::Window& window);

/// Adds what other ranks have added up in the window to the sums for the own rows.
void add_window(const Problem& problem, const pattern::StoredRows& rows, const comm::Window& window,
                const GradientBlock& own);

/// Packed rows as runs in their owner's window, and the number of rows in that window.
struct WindowRuns {
  std::vector<comm::RowRun> runs;
  Index held = 0;
};
WindowRuns window_runs(const Problem& problem, const pattern::StoredRows& owner, const pattern::PackedRows& packed);

}  // namespace annulus::strategies
