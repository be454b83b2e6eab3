// Deals whole documents to ranks, so that the ranks have equal work.
//
// Rows of different documents never see each other, so a document on one rank costs no message and no wait. We want
// equal work, not too many rows per rank, and few intervals, because each interval costs a read of the file and more
// work in planning.
//
//   cut      A document with more work than the fair share F = (work of all documents) / P fills one rank after
//            another. So the document lies on as few ranks as possible, and these ranks are neighbours in the ring.
//   whole    Other documents with more work than F / 32 are dealt, the largest first, each to the rank with the least
//            work. A document that would raise every rank above F + F / 16 is cut. Its parts fill the ranks with the
//            least work up to F, on as few ranks as possible.
//   runs     All other documents are too small to matter one by one. Rank after rank takes the next documents of the
//            sequence until it has its share of the work. The rows of these documents are a run, with holes where
//            other ranks have large documents.
//
// If all documents were dealt in runs (by prefix sums of their work), there would be the fewest intervals, one per
// rank. But a border between two runs may fall inside a long document. Then either the border cuts the document, or we
// move the border to the document's nearer end. Such a move changes a rank's work by up to half of the document's work.
// Dealing documents one by one balances best, but leaves about one interval for each document. Example: 10,000
// documents of log-normal lengths on 4 ranks. The rules above cut none of these documents, and give each rank some ten
// intervals and a work within 1 % of F; `zigzag` gives each rank 10,000 to 20,000 intervals.
//
// Long documents have more work per row. If long documents fill whole ranks, the other ranks get many short documents
// and too many rows, above all if the documents are sorted by length. So we try a second way if the first way gives a
// rank more work than F + F / 16, or more than 2 + 1 / 8 times the mean number of rows. The second way first deals
// light documents, in runs of equally many rows. Light documents have at most F of work, and at most the average work
// per row. Then a rank has at most n / P rows of light documents, plus one document. A rank's work is at most about F,
// and nearly all other documents have more than the average work per row. So a rank has at most about n / P rows of
// other documents. We take the way whose worst rank is better. The larger of work / F and rows / (2 mean rows) says how
// bad a rank is.
#pragma once

#include "annulus/pattern/counts.hpp"

namespace annulus::pattern {

/// Returns the rows of every rank; equal arguments give equal results. Evaluates one closed form for each document and
/// O(log rows) for each cut. If there is only one document, it is cut as by `zigzag` if causal, otherwise as by
/// `contiguous`.
Partition documents_partition(const Layout& layout, int ranks);

}  // namespace annulus::pattern
