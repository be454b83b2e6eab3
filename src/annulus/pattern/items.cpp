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

/// The comb rows with indices `t`, as a range.
StridedRange piece_of(const Comb& comb, Interval t) { return {comb.row(t.begin), comb.stride, t.size()}; }

/// All rows from the first to the last comb row with indices `t`.
Interval hull_of(const Comb& comb, Interval t) {
  if (t.empty()) return {};
  return {comb.row(t.begin), comb.row(t.end - 1) + 1};
}

/// Comb indices to be worked on: ascending, disjoint intervals.
using Ranges = std::vector<Interval>;

/// Appends the runs of those comb indices in `ranges` whose rows are among the query rows.
RowMap append_queries(const Comb& comb, const StoredRows& rows, const Ranges& ranges, std::vector<Run>& runs) {
  RowMap map{Index(runs.size()), 0, 0};
  for (const Interval& range : ranges) {
    const Interval hull = hull_of(comb, range);
    for (std::size_t i = rows.first_ending_after(hull.begin); i < rows.intervals().size(); ++i) {
      const Interval& stored = rows.intervals()[i];
      if (stored.begin >= hull.end) break;
      const Interval t = core::intersect(indices_within(comb, stored), range);
      if (t.empty()) continue;
      runs.push_back({t.begin, rows.stored_begin(i) + comb.row(t.begin) - stored.begin, comb.stride, t.size()});
      map.runs += 1;
      map.count += t.size();
    }
  }
  return map;
}

/// Appends the runs of those comb indices in `ranges` whose rows the block holds for key/value head `kv`. A piece that
/// is read lies inside one stored range (strided_ranges.hpp). A piece that lies in no stored range was not sent,
/// because no query of this rank reads the piece.
RowMap append_keys(const Comb& comb, const KeyRows& keys, Index kv, const Ranges& ranges, std::vector<Run>& runs) {
  RowMap map{Index(runs.size()), 0, 0};
  for (const Interval& wanted : ranges) {
    const Interval hull = hull_of(comb, wanted);
    for (std::size_t i = keys.first_ending_after(hull.begin); i < keys.owned().size(); ++i) {
      if (keys.owned()[i].rows.begin >= hull.end) break;
      const Interval t = core::intersect(indices_within(comb, keys.owned()[i].rows), wanted);
      if (t.empty()) continue;
      const KeyRows::StoredRange* stored = keys.find(i, kv, piece_of(comb, t));
      if (stored == nullptr) continue;
      const StridedRange& range = stored->range;
      const Index stride = t.size() > 1 ? comb.stride / range.stride : 1;
      runs.push_back({t.begin, stored->stored + (comb.row(t.begin) - range.first) / range.stride, stride, t.size()});
      map.runs += 1;
      map.count += t.size();
    }
  }
  return map;
}

/// Checks that each piece begins where a granule begins, and ends where a granule or a wanted range ends. A piece
/// consists of all runs that follow one another in t without gaps; they may be stored apart. Worked example: runs
/// (t, count) {16, 1}, {17, 15} and {64, 16} are the pieces 16 ... 31 and 64 ... 79.
void check_granules(const Comb& comb, const RowMap& map, const std::vector<Run>& runs, Index granule,
                    const Ranges& ranges) {
  const auto ends_range = [&](Index t) {
    return std::any_of(ranges.begin(), ranges.end(), [t](const Interval& range) { return range.end == t; });
  };
  const Run* run = runs.data() + map.first_run;
  for (const Run* const runs_end = run + map.runs; run != runs_end;) {
    Interval piece{run->t, run->t};
    for (; run != runs_end && run->t == piece.end; ++run) piece.end += run->count;
    core::require(piece.begin % granule == 0 && (piece.end % granule == 0 || ends_range(piece.end)), [&] {
      return fmt::format(
          "rows {} to {} in steps of {} are cut inside a granule of {} rows: they are rows {} to {} of their comb",
          comb.row(piece.begin), comb.row(piece.end - 1), comb.stride, granule, piece.begin, piece.end - 1);
    });
  }
}

/// Makes the items of one list: what query rows see of a block of keys, in the combs given to append().
class ItemMaker {
 public:
  ItemMaker(const Layout& layout, const StoredRows& queries, const KeyRows& keys, const VisiblePart& visible,
            WorkList& list)
      : layout_(layout), queries_(queries), keys_(keys), visible_(visible), list_(list) {}

  /// Adds the items of one comb of the document that begins at row `document`: one item for each key/value head that
  /// some of the query heads `heads` read. Only query heads of the share count.
  void append(const Comb& comb, Index document, const HeadSet& heads) {
    for_each_key_head(layout_, heads, [&](Index kv, const HeadSet& served) { append(comb, document, kv, served); });
  }

 private:
  /// Adds the item of one key/value head; heads are numbered as in the share.
  void append(const Comb& comb, Index document, Index kv, const HeadSet& heads) {
    const std::size_t mark = list_.runs.size();
    if (!find_ranges(comb, kv)) return;
    const RowMap query = append_queries(comb, queries_, query_ranges_, list_.runs);
    const RowMap key = append_keys(comb, keys_, kv, key_ranges_, list_.runs);
    if (query.count == 0 || key.count == 0) {
      list_.runs.resize(mark);
      return;
    }
    if (layout_.granule > 1) {
      check_granules(comb, query, list_.runs, layout_.granule, query_ranges_);
      check_granules(comb, key, list_.runs, layout_.granule, key_ranges_);
    }
    list_.items.push_back({query, key, kv, heads.first, heads.stride, heads.count, visible_.band, comb.base - document,
                           comb.stride, document});
  }

  /// Sets query_ranges_ and key_ranges_. First drops keys that no query sees through the band, then drops queries that
  /// see none of the remaining keys. Returns false if no query remains. Worked example: the band `upto` drops keys
  /// after the last query and queries before the first key. The band `after` drops keys up to the first query and
  /// queries from the last key on.
  bool find_ranges(const Comb& comb, Index kv) {
    const std::size_t mark = list_.runs.size();
    const Band& band = visible_.band;
    // Layout::keys has row numbers, and `seen` has comb indices. If some rows are not keys, attention is dense and has
    // one document, so one comb has all rows, and both numbers are the same.
    const Interval seen = core::intersect({0, std::min(comb.count, visible_.keys)}, layout_.keys);
    query_ranges_.assign(1, {0, comb.count});
    key_ranges_.assign(1, seen);
    if (band == Band::all) return true;
    reach_of(comb, append_queries(comb, queries_, query_ranges_, list_.runs), band, key_ranges_);
    for (Interval& range : key_ranges_) range = core::intersect(range, seen);
    list_.runs.resize(mark);
    reach_of(comb, append_keys(comb, keys_, kv, key_ranges_, list_.runs), {band.right, band.left}, query_ranges_);
    list_.runs.resize(mark);
    return !query_ranges_.empty();
  }

  void reach_of(const Comb& comb, const RowMap& map, const Band& band, Ranges& ranges) const {
    ranges.clear();
    for (Index i = 0; i < map.runs; ++i) {
      const Run& run = list_.runs[std::size_t(map.first_run + i)];
      append_reach(comb, {run.t, run.t + run.count}, band, layout_.granule, ranges);
    }
  }

  const Layout& layout_;
  const StoredRows& queries_;
  const KeyRows& keys_;
  const VisiblePart visible_;
  WorkList& list_;
  Ranges query_ranges_, key_ranges_;
};

/// Sum over t in `query` of the number of s in `key` with s <= t.
Count causal_count(Interval query, Interval key) {
  // Let f(m) = 1 + 2 + ... + m. The queries [b, e) that see only a part of the keys, which begin at k, see f(e - k) -
  // f(b - k) keys in all.
  const auto f = [](Index m) { return m > 0 ? Count(m) * (m + 1) / 2 : Count(0); };
  const Index seen_fully = std::max<Index>(0, query.end - std::max(query.begin, key.end));
  const Interval partly = core::intersect(query, key);
  return Count(seen_fully) * key.size() + f(partly.end - key.begin) - f(partly.begin - key.begin);
}

/// Returns the same sum over all runs of an item, with s <= t + shift. Both lists of runs ascend, so if all queries of
/// a run see a key run in full, all later queries see this key run in full, too.
Count upto_count(const WorkItem& item, const std::vector<Run>& runs, Index shift) {
  const Run* key = runs.data() + item.key.first_run;
  const Run* const keys_end = key + item.key.runs;
  Index before = 0;  // keys of the runs before `key`
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

/// Appends the items of one pair to `list`, which is the list of one of the pair's visible parts.
void append_pair(const Layout& layout, Index i, const PairCombs& combs, const StoredRows& queries, const KeyRows& keys,
                 const VisiblePart& visible, WorkList& list) {
  const Pair& pair = layout.pattern.pairs[std::size_t(i)];
  const Interval key_hull{keys.owned().front().rows.begin, keys.owned().back().rows.end};
  ItemMaker items(layout, queries, keys, visible, list);
  Index done = 0;  // end of the last segment, which may reach into the next interval
  for (const Interval& rows : queries.intervals()) {
    // A segment is visited once, also if it has rows of several intervals. A segment without keys has no items.
    const Index from = std::max(rows.begin, done);
    for (const Interval& segment : segments_touching(pair, layout.documents, {from, rows.end})) {
      done = segment.end;
      if (core::intersect(segment, key_hull).empty()) continue;
      const Index document = document_of(layout.documents, segment.begin).begin;
      const Interval held{std::max(from, segment.begin), queries.intervals().back().end};  // visit() clips it
      combs.visit(segment, held, [&](const UsedOffset& used, std::size_t) {
        items.append(comb_of(segment, pair.dilation, used.offset), document, used.heads);
      });
    }
  }
}

}  // namespace

Interval viewers_of(const Pair& pair, const Layout& layout, Interval document, Interval rows) {
  const auto& [left, right, first, viewers] = *pair.window;
  const Index n = layout.documents.back(), r = pair.dilation;
  const auto distance = [&](Index comb_rows) { return comb_rows > n / r ? n : comb_rows * r; };
  rows = core::intersect(rows, document);
  Interval all{rows.begin - (layout.pattern.causal ? 0 : distance(right)),
               rows.end + distance(left + layout.granule - 1)};
  const bool in_first = rows.begin < document.begin + first;
  if (in_first || viewers > 0) all.end = document.end;
  if ((in_first && !layout.pattern.causal) || viewers > 0) all.begin = document.begin;
  return core::intersect(all, document);
}

std::vector<WorkList> work_lists(const Layout& layout, const StoredRows& queries, const KeyRows& keys,
                                 const Band& part) {
  std::vector<WorkList> lists;
  const bool any = queries.count() > 0 && keys.count() > 0;
  for (Index i = 0; i < Index(layout.pattern.pairs.size()); ++i) {
    const bool is_used = any && i >= layout.used_pairs().begin && i < layout.used_pairs().end;
    const Pair& pair = layout.pattern.pairs[std::size_t(i)];
    const PairCombs combs(layout.pattern, i, layout.heads);
    for (VisiblePart visible : visible_parts(pair, layout.pattern.causal)) {
      WorkList& list = lists.emplace_back();
      visible.band = core::overlap(visible.band, part);
      const bool is_empty = visible.band.left + visible.band.right < 0;
      if (is_used && !is_empty) append_pair(layout, i, combs, queries, keys, visible, list);
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
