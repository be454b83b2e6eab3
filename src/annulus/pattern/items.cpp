#include "annulus/pattern/items.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "annulus/core/error.hpp"

namespace annulus::pattern {
namespace {

using core::Band;
using core::Count;
using core::RowMap;
using core::Run;
using core::WorkItem;
using core::WorkList;

/// Comb rows with indices `t`, as a part.
StridedRange piece_of(const Comb& comb, Interval t) { return {comb.row(t.begin), comb.stride, t.size()}; }

/// Rows from the first to the last one that the window has of the comb.
Interval hull_of(const Comb& comb, Interval window) {
  if (window.empty()) return {};
  return {comb.row(window.begin), comb.row(window.end - 1) + 1};
}

/// Appends the runs of those comb indices in `window` that the query rows hold.
RowMap append_queries(const Comb& comb, const StoredRows& rows, Interval window, std::vector<Run>& runs) {
  RowMap map{Index(runs.size()), 0, 0};
  const Interval hull = hull_of(comb, window);
  for (std::size_t i = rows.first_behind(hull.begin); i < rows.intervals().size(); ++i) {
    const Interval& stored = rows.intervals()[i];
    if (stored.begin >= hull.end) break;
    const Interval t = core::intersect(indices_within(comb, stored), window);
    if (t.empty()) continue;
    runs.push_back({t.begin, rows.stored_begin(i) + comb.row(t.begin) - stored.begin, comb.stride, t.size()});
    map.runs += 1;
    map.count += t.size();
  }
  return map;
}

/// Appends the runs of those comb indices in `window` that the block holds for key/value head `kv`. A piece that is
/// read lies inside one stored range (strided_ranges.hpp); one that lies in none was not sent, because nobody here
/// reads it.
RowMap append_keys(const Comb& comb, const KeyRows& keys, Index kv, Interval window, std::vector<Run>& runs) {
  RowMap map{Index(runs.size()), 0, 0};
  const Interval hull = hull_of(comb, window);
  for (std::size_t i = keys.first_behind(hull.begin); i < keys.owned().size(); ++i) {
    if (keys.owned()[i].rows.begin >= hull.end) break;
    const Interval t = core::intersect(indices_within(comb, keys.owned()[i].rows), window);
    if (t.empty()) continue;
    const KeyRows::StoredRange* stored = keys.find(i, kv, piece_of(comb, t));
    if (stored == nullptr) continue;
    const StridedRange& range = stored->range;
    const Index stride = t.size() > 1 ? comb.stride / range.stride : 1;
    runs.push_back({t.begin, stored->stored + (comb.row(t.begin) - range.first) / range.stride, stride, t.size()});
    map.runs += 1;
    map.count += t.size();
  }
  return map;
}

/// First and last + 1 comb index of a piece.
Interval hull(const RowMap& map, const std::vector<Run>& runs) {
  const Run& first = runs[std::size_t(map.first_run)];
  const Run& last = runs[std::size_t(map.first_run + map.runs - 1)];
  return {first.t, last.t + last.count};
}

/// Pieces, whose runs may be stored apart, begin with a granule and end with one, or where nobody sees the rest.
/// Worked example: runs {16, 1}, {17, 15} and {64, 16} (t and count) are the pieces 16 ... 31 and 64 ... 79.
void check_granules(const Comb& comb, const RowMap& map, const std::vector<Run>& runs, Index granule, Interval window) {
  const Run* run = runs.data() + map.first_run;
  for (const Run* const all = run + map.runs; run != all;) {
    Interval piece{run->t, run->t};
    for (; run != all && run->t == piece.end; ++run) piece.end += run->count;
    core::require(piece.begin % granule == 0 && (piece.end % granule == 0 || piece.end == window.end), [&] {
      return fmt::format(
          "rows {} to {}, every {}, are cut inside a granule of {}: they are number {} to {} of their comb",
          comb.row(piece.begin), comb.row(piece.end - 1), comb.stride, granule, piece.begin, piece.end - 1);
    });
  }
}

/// Comb indices from the start of the granule of `begin` on up to `end`, of those that the comb has.
Interval window_of(const Comb& comb, Index granule, Index begin, Index end) {
  return core::intersect({std::max<Index>(begin, 0) / granule * granule, end}, {0, comb.count});
}

/// Adds the item of one comb, of the document that begins at row `document`, and one key/value head, heads as the share
/// numbers them. Rows that a band leaves without a partner are left out. Worked example: with `upto` queries before the
/// first key and keys after the last query, with `after` queries from the last key on and keys up to the first query.
void append_item(const Layout& layout, const Comb& comb, Index document, const HeadSet& heads, Index kv,
                 const StoredRows& queries, const KeyRows& keys, const Band& band, WorkList& list) {
  const std::size_t mark = list.runs.size();
  Interval query_window{0, comb.count}, key_window{0, comb.count};
  if (band != Band::all) {
    const RowMap all_queries = append_queries(comb, queries, query_window, list.runs);
    const RowMap all_keys = append_keys(comb, keys, kv, key_window, list.runs);
    if (all_queries.count > 0 && all_keys.count > 0) {
      const Interval asked = hull(all_queries, list.runs), there = hull(all_keys, list.runs);
      query_window = window_of(comb, layout.granule, there.begin - band.right, there.end + band.left);
      key_window = window_of(comb, layout.granule, asked.begin - band.left, asked.end + band.right);
    }
    list.runs.resize(mark);
  }
  const RowMap query = append_queries(comb, queries, query_window, list.runs);
  const RowMap key = append_keys(comb, keys, kv, key_window, list.runs);
  if (query.count == 0 || key.count == 0) {
    list.runs.resize(mark);
    return;
  }
  if (layout.granule > 1) {
    check_granules(comb, query, list.runs, layout.granule, query_window);
    check_granules(comb, key, list.runs, layout.granule, key_window);
  }
  list.items.push_back(
      {query, key, kv, heads.first, heads.stride, heads.count, band, comb.base - document, comb.stride, document});
}

/// Adds the items of one comb: one per key/value head that its query heads, those of the share, read.
void append_items(const Layout& layout, const Comb& comb, Index document, const HeadSet& heads,
                  const StoredRows& queries, const KeyRows& keys, const Band& band, WorkList& list) {
  for_each_key_head(layout, heads, [&](Index kv, const HeadSet& served) {
    append_item(layout, comb, document, served, kv, queries, keys, band, list);
  });
}

/// Sum over t in [query) of the number of s in [key) with s <= t.
Count causal_count(Interval query, Interval key) {
  // Triangle numbers: with f(m) = 1 + 2 + ... + m, rows that see part of the run sum to a difference of two triangles.
  const auto f = [](Index m) { return m > 0 ? Count(m) * (m + 1) / 2 : Count(0); };
  const Index seen_fully = std::max<Index>(0, query.end - std::max(query.begin, key.end));
  const Interval partly = core::intersect(query, key);
  return Count(seen_fully) * key.size() + f(partly.end - key.begin) - f(partly.begin - key.begin);
}

/// The same over the runs of an item, with s <= t + shift. Both ascend, so keys that one query run sees in full are
/// seen by all that follow.
Count upto_count(const WorkItem& item, const std::vector<Run>& runs, Index shift) {
  const Run* key = runs.data() + item.key.first_run;
  const Run* const keys_end = key + item.key.runs;
  Index before = 0;  // keys of the runs in front of `key`
  Count upto = 0;
  for (Index a = 0; a < item.query.runs; ++a) {
    Run query = runs[std::size_t(item.query.first_run + a)];
    query.t += shift;
    for (; key != keys_end && key->t + key->count <= query.t; ++key) before += key->count;
    upto += Count(before) * query.count;
    for (const Run* k = key; k != keys_end && k->t < query.t + query.count; ++k) {
      upto += causal_count({query.t, query.t + query.count}, {k->t, k->t + k->count});
    }
  }
  return upto;
}

}  // namespace

std::vector<WorkList> work_lists(const Layout& layout, const StoredRows& queries, const KeyRows& keys,
                                 const Band& part) {
  std::vector<WorkList> lists(layout.pattern.pairs.size());
  const Band band = core::overlap(layout.pattern.causal ? Band::upto : Band::all, part);
  if (queries.count() == 0 || keys.count() == 0 || band.left + band.right < 0) return lists;
  const Interval key_hull{keys.owned().front().rows.begin, keys.owned().back().rows.end};
  for (Index i = layout.used_pairs().begin; i < layout.used_pairs().end; ++i) {
    const Pair& pair = layout.pattern.pairs[std::size_t(i)];
    const std::vector<UsedOffset> offsets = used_offsets(layout.pattern, i, layout.heads);
    Index done = 0;  // segments of one interval may reach into the next one
    for (const Interval& rows : queries.intervals()) {
      // Only segments that reach the keys matter; those of other rows would be enumerated for nothing.
      const Index from = std::max(rows.begin, done);
      for (const Interval& segment : segments_touching(pair, layout.documents, {from, rows.end})) {
        done = segment.end;
        if (core::intersect(segment, key_hull).empty()) continue;
        const Index document = document_of(layout.documents, segment.begin).begin;
        for (const UsedOffset& used : offsets) {
          append_items(layout, comb_of(segment, pair.dilation, used.offset), document, used.heads, queries, keys, band,
                       lists[std::size_t(i)]);
        }
      }
    }
  }
  return lists;
}

Count kept_triples(const WorkList& list) {
  Count kept = 0;
  for (const WorkItem& item : list.items) {
    const Band& band = item.band;
    const Count upto = band.right == Band::unbounded ? Count(item.query.count) * item.key.count
                                                     : upto_count(item, list.runs, band.right);
    const Count beyond = band.left == Band::unbounded ? 0 : upto_count(item, list.runs, -band.left - 1);
    kept += item.head_count * (upto - beyond);
  }
  return kept;
}

Count kept_triples(const std::vector<WorkList>& lists) {
  Count kept = 0;
  for (const WorkList& list : lists) kept += kept_triples(list);
  return kept;
}

}  // namespace annulus::pattern
