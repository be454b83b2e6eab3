// Large memory in huge pages: a page of 2 MiB is mapped by one fault instead of 512, and rows far apart, as those of a
// head or a comb are, no longer take an entry of the processor's address cache each.
#pragma once

#include <limits>

#include "annulus/core/types.hpp"

namespace annulus::core {

inline constexpr Index huge_page_bytes = 2 * 1024 * 1024;

/// `bytes`, or as many as fill the last huge page where they need half of it or more: up to 1 MiB more, which is
/// not touched but mapped with the page, and which the memory ledger (core/memory.hpp) does not count.
constexpr Index in_huge_pages(Index bytes) {
  const Index rest = bytes % huge_page_bytes, missing = huge_page_bytes - rest;
  return missing > huge_page_bytes / 2 || bytes > std::numeric_limits<Index>::max() - missing ? bytes : bytes + missing;
}

/// Asks the operating system for huge pages in [memory, memory + bytes), as many whole ones as lie in it; to be called
/// before the memory is touched. Nothing happens where it has none to give (Linux with transparent huge pages switched
/// off, other systems).
void ask_for_huge_pages(void* memory, Index bytes);

}  // namespace annulus::core
