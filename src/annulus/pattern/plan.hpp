// Which rows of one rank another one reads.
#pragma once

#include <vector>

#include "annulus/pattern/items.hpp"

namespace annulus::pattern {

/// Rows of `owner` of which queries of `consumer` see any, in the form in which they travel; owner and consumer hold
/// different rows. Costs O(owner's intervals x pairs x offsets), whatever the number of rows: only a segment that
/// reaches over the end of an interval can hold rows of two ranks. Causal: only rows before some query of the consumer.
/// From a window only the rows that some query sees travel: those of r combs, `left` each before a consumer's interval,
/// and `right` after it.
PackedRows rows_read(const Layout& layout, const StoredRows& owner, const StoredRows& consumer);

/// The same rows, every part a whole comb's piece of one of the owner's intervals, or what a window shows of that; in a
/// layout of one pair no row lies in two parts.
PackedRows pieces_read(const Layout& layout, const StoredRows& owner, const StoredRows& consumer);

/// PackedRows that holds all rows of both, which rows_read() made; every part of either lies inside one of its parts.
PackedRows join(PackedRows a, const PackedRows& b);

}  // namespace annulus::pattern
