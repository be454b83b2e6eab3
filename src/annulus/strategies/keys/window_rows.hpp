// What a rank of `onesided` exposes: K and V, and sums of their gradients, in the same form.
#pragma once

#include "annulus/comm/window.hpp"
#include "annulus/strategies/backward_computation.hpp"
#include "annulus/strategies/packed_rows.hpp"

namespace annulus::strategies {

/// All rows of a rank as its window stores them: interval after interval, head after head. Rows of a head that follow
/// one another are one piece of memory, so a dense block is read in 2 B Hkv long pieces instead of one per row.
pattern::PackedRows window_rows(const Problem& problem, const pattern::StoredRows& rows);

/// Copies the rank's K and V into the window.
void fill_window(const Problem& problem, const pattern::StoredRows& rows, const KeyBlock& own, comm::Window& window);

/// Adds what the other ranks have left in the window to the sums for the own rows.
void add_window(const Problem& problem, const pattern::StoredRows& rows, const comm::Window& window,
                const GradientBlock& own);

/// PackedRows as runs of the window of the rank that owns it, and the rows of that window.
struct WindowRuns {
  std::vector<comm::RowRun> runs;
  Index held = 0;
};
WindowRuns window_runs(const Problem& problem, const pattern::StoredRows& owner, const pattern::PackedRows& packed);

}  // namespace annulus::strategies
