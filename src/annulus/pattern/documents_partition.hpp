// Whole documents are dealt to ranks by work.
//
// Rows of different documents never see each other: a document on one rank costs no message and no wait. We want equal
// work, not too many rows per rank, and few intervals: each costs a read of the file and a step of the plan.
//
//   cut      A document with more work than the fair share F = work / P fills one rank after another, so that it
//            lies on as few ranks as possible; these are neighbours in the ring.
//   whole    Other documents of more than F / 32, the largest first: each goes to the rank with the least work. One
//            that would raise every rank above F + F / 16 is cut over the fewest ranks that have room for it.
//   runs     All other documents are too small to matter one by one. Rank after rank takes the next ones of the
//            sequence until it has its share. Its rows are then a run, with holes where others have large documents.
//
// Runs alone (prefix sums of the work of all documents) would have the fewest intervals, one per rank. But a border
// inside a long document cuts it, or misses the share by up to half of it. Dealing documents one by one balances best,
// but leaves about one interval per document. With 10,000 documents of log-normal lengths on 4 ranks, the steps above
// give some ten intervals per rank, no cut, and works within 1 %; `zigzag` gives 10,000 to 20,000 per rank.
//
// Documents differ in rows per work. Where long documents fill whole ranks, short ones crowd on the other ranks, most
// in a sequence sorted by length. So if a rank gets too much work, or more than about twice the mean rows, a second way
// is tried: documents with less than average work per row are dealt first, in runs of equally many rows. Then a rank
// has at most n / P of these rows plus one document, and at most n / P others, because its work is at most F. We take
// the way whose worst rank is better, by the larger of work / F and rows / (2 mean rows).
//
// The result is deterministic. It needs O(documents log P) closed forms; no row is looked at.
#pragma once

#include "annulus/pattern/counts.hpp"

namespace annulus::pattern {

/// A single document is cut as by `zigzag` if causal, otherwise as by `contiguous`.
Partition documents_partition(const Layout& layout, int ranks);

}  // namespace annulus::pattern
