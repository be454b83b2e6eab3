// Puts large memory into huge pages. One page fault then maps 2 MiB instead of 4 KiB. Rows that lie far apart, such as
// the rows of a head or of a comb, need fewer entries in the processor's address cache (TLB).
#pragma once

#include <limits>

#include "annulus/core/types.hpp"

namespace annulus::core {

inline constexpr Index huge_page_bytes = 2 * 1024 * 1024;

/// Returns `bytes`, rounded up to whole huge pages if at least half of the last page is used. The added bytes, up to 1
/// MiB, are mapped with that page but never touched. The memory ledger (core/memory.hpp) does not count them.
constexpr Index in_huge_pages(Index bytes) {
  const Index rest = bytes % huge_page_bytes, missing = huge_page_bytes - rest;
  return missing > huge_page_bytes / 2 || bytes > std::numeric_limits<Index>::max() - missing ? bytes : bytes + missing;
}

/// Asks the operating system to use huge pages for the whole pages of 2 MiB in [memory, memory + bytes). Call this
/// function before the memory is touched. Does nothing if the system has no huge pages (Linux with transparent huge
/// pages switched off, other systems).
void ask_for_huge_pages(void* memory, Index bytes);

}  // namespace annulus::core
