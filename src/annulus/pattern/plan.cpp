#include "annulus/pattern/plan.hpp"

#include <algorithm>
#include <iterator>
#include <map>

namespace annulus::pattern {
namespace {

/// Returns the last of the comb's rows that the consumer holds; -1 if the consumer holds none of them.
Index last_row_held(const StoredRows& consumer, const Comb& comb) {
  if (comb.count == 0) return -1;
  const auto& intervals = consumer.intervals();
  std::size_t i = consumer.first_ending_after(comb.row(comb.count - 1));
  if (i < intervals.size()) ++i;  // interval i may hold the comb's last row
  for (; i > 0 && intervals[i - 1].end > comb.base; --i) {
    const Interval t = indices_within(comb, intervals[i - 1]);
    if (!t.empty()) return comb.row(t.end - 1);
  }
  return -1;
}

/// Finds the rows that one consumer reads through one pair. Remembers the last segment that it has evaluated. So if the
/// owner's intervals are passed in ascending order, each segment is evaluated once, even if several intervals lie in
/// the segment.
class PairReader {
 public:
  PairReader(const Layout& layout, Index pair, const StoredRows& consumer, const HeadClasses* classes)
      : layout_(layout),
        pair_(layout.pattern.pairs[std::size_t(pair)]),
        classes_(classes == nullptr ? nullptr : &classes->users[std::size_t(pair - layout.used_pairs().begin)]),
        combs_(layout.pattern, pair, layout.heads),
        last_rows_(combs_.offsets().size()),
        consumer_(consumer) {}

  /// Appends the rows that the consumer reads of an owner's interval. Only segments that cross an end of the interval
  /// can have rows of other ranks.
  void append(OwnerInterval& owned) {
    const Interval rows = owned.rows;
    const Interval first = segment_of(pair_, layout_.documents, rows.begin);
    if (first.begin < rows.begin || first.end > rows.end) append(first, owned);
    if (first.end >= rows.end) return;
    const Interval last = segment_of(pair_, layout_.documents, rows.end - 1);
    if (last.end > rows.end) append(last, owned);
  }

 private:
  void append(Interval segment, OwnerInterval& owned) {
    if (pair_.window) return append_window(segment, owned);
    look_at(segment);
    const Index after = layout_.pattern.causal ? owned.rows.end : 0;
    const Interval rows = core::intersect(owned.rows, layout_.keys);
    combs_.visit(segment, rows, [&](const UsedOffset& used, std::size_t i) {
      const Comb comb = comb_of(segment, pair_.dilation, used.offset);
      const Interval t = indices_within(comb, rows);
      if (t.empty() || last_rows_[i] < after) return;
      visit_heads(used, i, [&](Index kv) {
        owned.heads[std::size_t(kv)].push_back({comb.row(t.begin), comb.stride, t.size()});
      });
    });
  }
  /// Calls visit(kv) for each K/V head, or class of heads, that uses offset `i`.
  template <class Visit>
  void visit_heads(const UsedOffset& used, std::size_t i, Visit&& visit) const {
    if (classes_ == nullptr) {
      for_each_key_head(layout_, used.heads, [&](Index kv, const HeadSet&) { visit(kv); });
    } else {
      for (const Index one : (*classes_)[i]) visit(one);
    }
  }
  void look_at(Interval segment) {
    if (segment == seen_) return;
    seen_ = segment;
    for (std::size_t i = 0; i < last_rows_.size(); ++i) {
      last_rows_[i] = last_row_held(consumer_, comb_of(segment, pair_.dilation, combs_.offsets()[i].offset));
    }
  }

  /// Finds the pieces only once, because all heads of a window read the same pieces.
  void append_window(Interval document, OwnerInterval& owned) {
    if (combs_.offsets().empty()) return;
    std::vector<StridedRange> pieces;
    combs_.visit(document, owned.rows, [&](const UsedOffset& used, std::size_t) {
      const Comb comb = comb_of(document, pair_.dilation, used.offset);
      const Interval own = indices_within(comb, owned.rows);
      find_window(comb, document, owned.rows);
      for (const Interval& range : window_) {
        const Interval t = core::intersect(range, own);
        if (!t.empty()) pieces.push_back({comb.row(t.begin), comb.stride, t.size()});
      }
    });
    visit_heads(combs_.offsets().front(), 0, [&](Index kv) {
      std::vector<StridedRange>& all = owned.heads[std::size_t(kv)];
      all.insert(all.end(), pieces.begin(), pieces.end());
    });
  }
  /// Sets window_ to comb indices that the consumer sees: at least to all such indices whose rows lie in `rows`.
  void find_window(const Comb& comb, Interval document, Interval rows) {
    window_.clear();
    const Window& window = *pair_.window;
    const core::Band band{window.left, layout_.pattern.causal ? 0 : window.right};
    // Only the consumer's rows in `near` see any of `rows`. The band does not show the document's first rows
    // (Window::first), so these first rows are appended on their own.
    const Interval near = viewers_of(pair_, layout_, document, rows);
    const auto& intervals = consumer_.intervals();
    if (window.first > 0 && last_row_held(consumer_, comb) >= (layout_.pattern.causal ? rows.end : 0))
      append_reach(comb, {0, window.first}, {0, 0}, layout_.granule, window_);
    for (std::size_t i = consumer_.first_ending_after(near.begin);
         i < intervals.size() && intervals[i].begin < near.end; ++i) {
      const Interval t = indices_within(comb, intervals[i]);
      if (!t.empty() && t.begin < window.viewers) window_.assign(1, {0, comb.count});
      if (!t.empty()) append_reach(comb, t, band, layout_.granule, window_);
    }
  }

  const Layout& layout_;
  const Pair pair_;
  const std::vector<std::vector<Index>>* classes_;  // [used offset] classes of heads; null: no classes
  const PairCombs combs_;
  std::vector<Interval> window_;  // of the current comb
  std::vector<Index> last_rows_;  // [i]: last_row_held() of offset i in the segment seen_
  Interval seen_;
  const StoredRows& consumer_;
};

/// Returns the first head after `kv` that reads other ranges than head `kv`. Heads with the same offset read the same
/// ranges, which may be many (with a window, one for each comb). So callers call reduce() only once for head `kv` and
/// the heads up to the returned head.
std::size_t end_of_equal(const std::vector<std::vector<StridedRange>>& heads, std::size_t kv) {
  std::size_t end = kv + 1;
  while (end < heads.size() && heads[end] == heads[kv]) ++end;
  return end;
}

void fill(std::vector<std::vector<StridedRange>>& heads, Interval some, const std::vector<StridedRange>& ranges) {
  std::fill(heads.begin() + some.begin, heads.begin() + some.end, ranges);
}

}  // namespace

PackedRows join(PackedRows a, const PackedRows& b) {
  PackedRows joined;
  auto next = a.begin();
  for (const OwnerInterval& owned : b) {
    while (next != a.end() && next->rows.begin < owned.rows.begin) joined.push_back(std::move(*next++));
    if (next == a.end() || next->rows != owned.rows) {
      joined.push_back(owned);
      continue;
    }
    for (std::size_t kv = 0, end = 0; kv < owned.heads.size(); kv = end) {
      end = std::min(end_of_equal(next->heads, kv), end_of_equal(owned.heads, kv));
      if (next->heads[kv] == owned.heads[kv]) continue;
      std::vector<StridedRange> ranges = next->heads[kv];
      ranges.insert(ranges.end(), owned.heads[kv].begin(), owned.heads[kv].end());
      fill(next->heads, {Index(kv), Index(end)}, reduce(std::move(ranges)));
    }
    joined.push_back(std::move(*next++));
  }
  std::move(next, a.end(), std::back_inserter(joined));
  return joined;
}

HeadClasses head_classes(const Layout& layout) {
  using Use = std::pair<std::size_t, std::size_t>;                             // a used pair, and an offset of it
  std::vector<std::vector<Use>> uses(std::size_t(layout.key_heads().size()));  // [K/V head]
  HeadClasses classes;
  for (Index i = layout.used_pairs().begin; i < layout.used_pairs().end; ++i) {
    const PairCombs combs(layout.pattern, i, layout.heads);
    for (std::size_t j = 0; j < combs.offsets().size(); ++j) {
      for_each_key_head(layout, combs.offsets()[j].heads,
                        [&](Index kv, const HeadSet&) { uses[std::size_t(kv)].emplace_back(classes.users.size(), j); });
    }
    classes.users.emplace_back(combs.offsets().size());
  }
  std::map<std::vector<Use>, std::size_t> known;
  for (const std::vector<Use>& all : uses) {
    const auto [found, is_new] = known.emplace(all, classes.heads.size());
    if (is_new) {
      classes.heads.push_back(0);
      for (const auto& [pair, offset] : all) classes.users[pair][offset].push_back(Index(found->second));
    }
    ++classes.heads[found->second];
  }
  return classes;
}

PackedRows pieces_read(const Layout& layout, const StoredRows& owner, const StoredRows& consumer,
                       const HeadClasses* classes) {
  std::vector<PairReader> readers;
  for (Index i = layout.used_pairs().begin; i < layout.used_pairs().end; ++i)
    readers.emplace_back(layout, i, consumer, classes);
  const std::size_t heads = classes == nullptr ? std::size_t(layout.key_heads().size()) : classes->heads.size();
  PackedRows packed;
  for (const Interval& rows : owner.intervals()) {
    OwnerInterval owned{rows, std::vector<std::vector<StridedRange>>(heads)};
    for (PairReader& reader : readers) reader.append(owned);
    if (!is_empty(owned)) packed.push_back(std::move(owned));
  }
  return packed;
}

PackedRows rows_read(const Layout& layout, const StoredRows& owner, const StoredRows& consumer,
                     const HeadClasses* classes) {
  PackedRows packed = pieces_read(layout, owner, consumer, classes);
  for (OwnerInterval& owned : packed) {
    for (std::size_t kv = 0, end = 0; kv < owned.heads.size(); kv = end) {
      end = end_of_equal(owned.heads, kv);
      fill(owned.heads, {Index(kv), Index(end)}, reduce(std::move(owned.heads[kv])));
    }
  }
  return packed;
}

}  // namespace annulus::pattern
