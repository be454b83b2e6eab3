#include "annulus/pattern/gradient_hops.hpp"

#include <algorithm>

namespace annulus::pattern {
namespace {

using core::wrap;

const OwnerInterval* interval_of(const PackedRows& packed, const Interval& rows) {
  const auto same = std::partition_point(packed.begin(), packed.end(),
                                         [&](const OwnerInterval& s) { return s.rows.begin < rows.begin; });
  return same == packed.end() || same->rows != rows ? nullptr : &*same;
}

/// The ranges of `packed` for which keep(range, ranges of the same interval and head in `other`) holds.
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

/// What has anything in it when `read` has been read.
PackedRows touched(const PackedRows& packed, const PackedRows& read) {
  return filtered(packed, read,
                  [](const StridedRange&, const std::vector<StridedRange>& ranges) { return !ranges.empty(); });
}

/// Ranges of `packed` that are not ranges of `next`.
PackedRows without(const PackedRows& packed, const PackedRows& next) {
  return filtered(packed, next, [](const StridedRange& range, const std::vector<StridedRange>& ranges) {
    return std::find(ranges.begin(), ranges.end(), range) == ranges.end();
  });
}

}  // namespace

PackedRows sums_sent_forward(const PackedRows& next, const PackedRows& read) { return touched(next, read); }
PackedRows sums_sent_back(const PackedRows& carried, const PackedRows& next, const PackedRows& read) {
  return touched(without(carried, next), read);
}

namespace {

/// Global rows at which the ranks' rows begin, and the end of the last one's; they follow one another.
std::vector<Index> row_begins(const Partition& contiguous) {
  std::vector<Index> begins{0};
  for (const StoredRows& rows : contiguous) begins.push_back(begins.back() + rows.count());
  return begins;
}

/// Pieces of an owner's rows that ranks at distance d, d + 1, ... upward read; none for d = P. These ranks
/// hold at most two intervals, and a piece is read where any of their rows sees it: one question for all of them.
/// Worked example: P = 4, 3 rows each: those at distance 2 and 3 of rank 1 are ranks 3 and 0, with [0, 3) and [9, 12).
PackedRows pieces_carried(const Layout& layout, const std::vector<Index>& begins, const Partition& owners, int owner,
                          int d) {
  const int ranks = int(owners.size()), first = owner + d;
  if (d == ranks) return {};
  const auto begin = [&](int rank) { return begins[std::size_t(rank)]; };
  const StoredRows readers(first < ranks ? std::vector<Interval>{{0, begin(owner)}, {begin(first), begin(ranks)}}
                                         : std::vector<Interval>{{begin(first - ranks), begin(owner)}});
  PackedRows carried = pieces_read(layout, owners[std::size_t(owner)], readers);
  for (OwnerInterval& owned : carried) {
    for (std::vector<StridedRange>& ranges : owned.heads) {
      std::sort(ranges.begin(), ranges.end(),
                [](const StridedRange& x, const StridedRange& y) { return x.first < y.first; });
    }
  }
  return carried;
}

}  // namespace

OrderedRoute::OrderedRoute(const Layout& layout, const Partition& readers, const Partition& owners)
    : layout_(layout), owners_(owners), begins_(row_begins(readers)) {}

GradientHop OrderedRoute::step(int rank, int s) const {
  const int ranks = int(owners_.size());
  const auto carried = [&](int owner, int d) { return pieces_carried(layout_, begins_, owners_, owner, d); };
  GradientHop hop;
  hop.next = wrap(rank + 1, ranks);
  hop.previous = wrap(rank - 1, ranks);
  hop.owner = wrap(rank - s, ranks);
  hop.reader = wrap(rank + s, ranks);
  hop.send_forward = carried(hop.owner, s + 1);
  if (s > 0) hop.send_back = without(carried(hop.owner, s), hop.send_forward);
  if (s > 0) hop.receive_back = without(carried(rank, s), carried(rank, s + 1));
  if (s + 1 < ranks) hop.receive_forward = carried(wrap(rank - s - 1, ranks), s + 1);
  return hop;
}

Index OrderedRoute::rows_sent_back(int rank) const {
  return head_rows(pieces_carried(layout_, begins_, owners_, rank, 1));
}

}  // namespace annulus::pattern
