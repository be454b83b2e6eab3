// Whole documents dealt to ranks by work.
//
// Documents never meet, so a whole one on a rank costs no message and, with every strategy, no wait. What is to be had
// is equal work, at most so many rows, and few intervals, because each costs a read of the file and a look of the plan:
//
//   cut      A document of more than the fair share F = work / P fills ranks one after another, so that it lies on as
//            few as it needs, neighbours in the ring.
//   whole    The others of more than F / 32, the largest first, each to the rank with the least work. One that would
//            bring every rank above F by a sixteenth of it is cut over the fewest that have room for it.
//   runs     All the rest are too small to matter one by one: rank after rank takes the next ones, in the order of the
//            sequence, until it has its share: a rank's rows are a run, with holes where others have large documents.
//
// Runs alone (prefix sums of the work of all documents) have the fewest intervals, one per rank, but a border that
// falls into a long document must cut it or miss the share by up to half of it; dealing every document by itself
// balances best and leaves about one interval per document. Of 10,000 log-normal documents on 4 ranks this has some ten
// intervals per rank and no cut, all work within 1 %; `zigzag` cuts them into 10,000 to 20,000 per rank.
//
// Rows per work differ: where long documents fill whole ranks, short ones crowd on the others, all the more where the
// sequence is sorted by length. Where a rank gets more than twice the mean of rows, documents with less than average
// work per row are dealt first, in runs of equally many rows. Then no rank has more of them than n / P rows and one
// document, nor, since its work is F at most, more than n / P rows of the others. Of both ways the one is taken whose
// worst rank, in work or in half its rows, is better.
//
// Deterministic, and from closed forms: O(documents log P), no row is looked at.
#pragma once

#include "annulus/pattern/counts.hpp"

namespace annulus::pattern {

/// A single document is cut as `zigzag` (causal) or `contiguous` cuts it.
Partition documents_partition(const Layout& layout, int ranks);

}  // namespace annulus::pattern
