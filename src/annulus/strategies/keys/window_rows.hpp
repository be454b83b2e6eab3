// Describes the rows that a rank of `onesided` exposes to other ranks in an MPI window: K and V or, in another window,
// sums of their gradients in the same form.
#pragma once

#include "annulus/comm/window.hpp"
#include "annulus/strategies/backward_computation.hpp"
#include "annulus/strategies/packed_rows.hpp"

namespace annulus::strategies {

/// Returns all rows of a rank in the order in which the rank's window stores them: interval after interval, head after
/// head. Rows of a head that follow one another are contiguous. So an interval is read in kv_parts() * Hkv long pieces,
/// not row by row.
pattern::PackedRows window_rows(const Problem& problem, const pattern::StoredRows& rows);

/// Copies the rank's K and V into the window.
void fill_window(const Problem& problem, const pattern::StoredRows& rows, const KeyBlock& own, comm::Window& window);

/// Adds the sums that other ranks have added to this rank's window to the rank's own sums.
void add_window(const Problem& problem, const pattern::StoredRows& rows, const comm::Window& window,
                const GradientBlock& own);

/// Says where packed rows are in their owner's window. `held`: number of rows of one head in that window.
struct WindowRuns {
  std::vector<comm::RowRun> runs;
  Index held = 0;
};
WindowRuns window_runs(const Problem& problem, const pattern::StoredRows& owner, const pattern::PackedRows& packed);

}  // namespace annulus::strategies
