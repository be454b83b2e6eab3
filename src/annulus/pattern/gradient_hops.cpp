#include "annulus/pattern/gradient_hops.hpp"

#include <algorithm>

#include "annulus/core/error.hpp"

namespace annulus::pattern {
namespace {

using core::wrap;

const OwnerInterval* interval_of(const PackedRows& packed, const Interval& rows) {
  const auto same = std::partition_point(packed.begin(), packed.end(),
                                         [&](const OwnerInterval& s) { return s.rows.begin < rows.begin; });
  return same == packed.end() || same->rows != rows ? nullptr : &*same;
}

/// Returns the ranges of `packed` for which keep(range, others) is true. `others` are the ranges of the same interval
/// and head in `other`.
template <class Keep>
PackedRows filtered(PackedRows packed, const PackedRows& other, Keep&& keep) {
  const std::vector<StridedRange> none;
  for (OwnerInterval& owned : packed) {
    const OwnerInterval* same = interval_of(other, owned.rows);
    for (std::size_t kv = 0; kv < owned.heads.size(); ++kv) {
      const std::vector<StridedRange>& ranges = same != nullptr ? same->heads[kv] : none;
      std::erase_if(owned.heads[kv], [&](const StridedRange& range) { return !keep(range, ranges); });
    }
  }
  std::erase_if(packed, is_empty);
  return packed;
}

/// Returns the ranges of `packed` that may have sums: the ranges in an interval and head in which `read` has rows.
PackedRows touched(const PackedRows& packed, const PackedRows& read) {
  return filtered(packed, read,
                  [](const StridedRange&, const std::vector<StridedRange>& ranges) { return !ranges.empty(); });
}

/// The ranges of `packed` that are not also ranges of `next` (which reduce() has sorted).
PackedRows without(const PackedRows& packed, const PackedRows& next) {
  return filtered(packed, next, [](const StridedRange& range, const std::vector<StridedRange>& ranges) {
    const auto same = std::partition_point(ranges.begin(), ranges.end(), [&](const StridedRange& one) {
      return std::pair(one.first, one.stride) < std::pair(range.first, range.stride);
    });
    return same == ranges.end() || *same != range;
  });
}

/// The rows of `packed` that are not in `next`. Both hold pieces of one pair; if the pair is a window, `next` may have
/// only a part of a piece.
PackedRows difference(PackedRows packed, const PackedRows& next) {
  for (OwnerInterval& owned : packed) {
    const OwnerInterval* same = interval_of(next, owned.rows);
    for (std::size_t kv = 0; same != nullptr && kv < owned.heads.size(); ++kv)
      owned.heads[kv] = difference(owned.heads[kv], same->heads[kv]);
  }
  std::erase_if(packed, is_empty);
  return packed;
}

}  // namespace

PackedRows sums_sent_forward(const PackedRows& next, const PackedRows& read) { return touched(next, read); }
PackedRows sums_sent_back(const PackedRows& carried, const PackedRows& next, const PackedRows& read) {
  return touched(without(carried, next), read);
}

OrderedRoute::OrderedRoute(const Layout& layout, const Partition& readers, const Partition& owners)
    : layout_(layout), owners_(owners), pieces_(shared_pieces(layout.documents, readers)), held_by_(readers.size()) {
  if (document_out_of_order(pieces_)) held_by_.clear();  // marks that there is no route
  for (std::size_t i = 0; i < pieces_.size() && !held_by_.empty(); ++i)
    held_by_[std::size_t(pieces_[i].rank)].push_back(i);
}

/// The rows that ranks at distance d, d + 1, ... upward from the owner have in documents in which the owner has a piece
/// (SharedPiece). These rows are at most two intervals per document, because a document's pieces follow one another
/// from rank to rank.
/// Worked example: P = 4, one document, 3 rows per rank, owner 1, d = 2: ranks 3 and 0 have these rows, which are
/// [0, 3) and [9, 12).
StoredRows OrderedRoute::rows_from(int owner, int d) const {
  const int ranks = int(held_by_.size()), first = owner + d;
  std::vector<Interval> rows;
  for (const std::size_t own : held_by_[std::size_t(owner)]) {
    const Interval document = pieces_[own].document;
    // Returns where the document's first piece on `rank` or a higher rank begins; if there is no such piece, the
    // document's end.
    const auto begin_of = [&](Index rank) {
      const auto found = std::partition_point(pieces_.begin(), pieces_.end(), [&](const SharedPiece& piece) {
        return piece.document.begin < document.begin || (piece.document == document && piece.rank < rank);
      });
      return found == pieces_.end() || found->document != document ? document.end : found->rows.begin;
    };
    const Interval before{begin_of(std::max(0, first - ranks)), pieces_[own].rows.begin};
    rows.push_back(core::intersect(before, layout_.queries));
    if (first < ranks) rows.push_back(core::intersect({begin_of(first), document.end}, layout_.queries));
  }
  return StoredRows(rows);
}

/// Returns the pieces of combs in an owner's rows that ranks at distance d, d + 1, ... upward read (none if d is P). A
/// piece is read if any row of these ranks sees it, so one call of pieces_read() is enough for all these ranks.
PackedRows OrderedRoute::pieces_carried(int owner, int d) const {
  if (d == int(owners_.size())) return {};
  PackedRows carried = pieces_read(layout_, owners_[std::size_t(owner)], rows_from(owner, d));
  for (OwnerInterval& owned : carried) {
    for (std::vector<StridedRange>& ranges : owned.heads) {
      std::sort(ranges.begin(), ranges.end(),
                [](const StridedRange& x, const StridedRange& y) { return x.first < y.first; });
    }
  }
  return carried;
}

GradientHop OrderedRoute::step(int rank, int s) const {
  const int ranks = int(owners_.size());
  const auto carried = [&](int owner, int d) { return pieces_carried(owner, d); };
  core::require(!held_by_.empty(),
                [] { return "a document's rows do not follow one another from rank to rank, so sums have no route"; });
  GradientHop hop;
  hop.next = wrap(rank + 1, ranks);
  hop.previous = wrap(rank - 1, ranks);
  hop.owner = wrap(rank - s, ranks);
  hop.reader_of_own_rows = wrap(rank + s, ranks);
  hop.send_forward = carried(hop.owner, s + 1);
  if (s > 0) hop.send_back = difference(carried(hop.owner, s), hop.send_forward);
  if (s > 0) hop.receive_back = difference(carried(rank, s), carried(rank, s + 1));
  if (s + 1 < ranks) hop.receive_forward = carried(wrap(rank - s - 1, ranks), s + 1);
  return hop;
}

Index OrderedRoute::rows_sent_back(int rank) const { return held_by_.empty() ? 0 : head_rows(pieces_carried(rank, 1)); }

}  // namespace annulus::pattern
