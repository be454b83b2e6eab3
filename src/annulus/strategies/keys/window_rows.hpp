// What a rank of `onesided` exposes: K and V, and sums of their gradients, in the same form.
#pragma once

#include <algorithm>
#include <array>
#include <numeric>

#include "annulus/comm/window.hpp"
#include "annulus/strategies/backward_computation.hpp"
#include "annulus/strategies/cargo.hpp"

namespace annulus::strategies {

/// All rows of a rank as its window stores them: interval after interval, head after head. Rows of a head that follow
/// one another are one stretch of memory, so a dense block is read in 2 B Hkv long pieces instead of one per row.
pattern::Cargo window_cargo(const Problem& problem, const pattern::StoredRows& rows);

/// Bytes of a window: those of a copy of the rank's K and V, or of sums, one for each of their numbers. None where
/// nobody reads any of it. `hops`: rotation_hops().
Index kv_window_bytes(const Problem& problem, const pattern::StoredRows& rows, const pattern::Hops& hops);
Index sum_window_bytes(const Problem& problem, const pattern::StoredRows& rows, const pattern::Hops& hops);

/// Copies the rank's K and V into the window.
void fill_window(const Problem& problem, const pattern::StoredRows& rows, const KeyBlock& own, comm::Window& window);

/// Adds what the other ranks have left in the window to the sums for the own rows.
void add_window(const Problem& problem, const pattern::StoredRows& rows, const comm::Window& window,
                const GradientBlock& own);

/// Cargo as runs of the window of the rank that owns it, and the rows of that window.
struct WindowRuns {
  std::vector<comm::RowRun> runs;
  Index held = 0;
};
WindowRuns window_runs(const Problem& problem, const pattern::StoredRows& owner, const pattern::Cargo& cargo);

/// Hops (counted from 0) that bring anything: what is read, in this order.
std::vector<std::size_t> reads_of(const pattern::Hops& hops);

/// Bytes of `count` buffers that take turns: what the i-th read brings lands in buffer i mod count, in bytes_of(cargo)
/// bytes.
template <std::size_t count, class BytesOf>
std::array<Index, count> bytes_in_turn(const pattern::Hops& hops, BytesOf&& bytes_of) {
  std::array<Index, count> bytes{};
  std::size_t i = 0;
  for (const std::size_t h : reads_of(hops)) {
    Index& buffer = bytes[i++ % count];
    buffer = std::max(buffer, bytes_of(hops[h].receive));
  }
  return bytes;
}

template <std::size_t count>
Index total(const std::array<Index, count>& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), Index(0));
}

}  // namespace annulus::strategies
