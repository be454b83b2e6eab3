#include "annulus/pattern/readers.hpp"

#include "annulus/pattern/shared_documents.hpp"

namespace annulus::pattern {
namespace {

std::vector<Interval> crossing(const Pair& pair, const Layout& layout, Interval rows) {
  const auto reach = [&](Index row) {
    const Interval segment = segment_of(pair, layout.documents, row);
    return pair.window ? viewers_of(pair, layout, segment, rows) : segment;
  };
  const Interval first = reach(rows.begin);
  const Interval last = first.end >= rows.end ? first : reach(rows.end - 1);
  std::vector<Interval> segments;
  if (first.begin < rows.begin || first.end > rows.end) segments.push_back(first);
  if (last != first && last.end > rows.end) segments.push_back(last);
  return segments;
}

/// True if a document's rows pass in one direction through rank p, which has piece i. The document's pieces before and
/// after piece i, if there are any, are then on ranks p - 1 and p + 1, or on ranks p + 1 and p - 1. Rank 0 counts as
/// the rank after the last one. On rank 0 and the last rank, where runs end anyway, the direction may change.
bool is_passed(const std::vector<SharedPiece>& pieces, std::size_t i, Index ranks) {
  const auto step = [&](std::size_t to) -> Index {  // 0: another document
    if (to == 0 || to == pieces.size() || pieces[to].document != pieces[to - 1].document) return 0;
    const Index from = pieces[to - 1].rank, rank = pieces[to].rank;
    return from == ranks - 1 && rank == 0 ? 1 : rank - from;
  };
  const Index in = step(i), out = step(i + 1), rank = pieces[i].rank;
  if (std::abs(in) > 1 || std::abs(out) > 1) return false;
  return in == out || in == 0 || out == 0 || rank == 0 || rank == ranks - 1;
}

}  // namespace

Readers::Readers(const Layout& layout, const Partition& owners, const Partition& readers, Runs kind)
    : layout_(layout),
      owners_(owners),
      readers_(readers),
      kind_(kind),
      pairs_(layout.used_pairs()),
      ranks_(Index(readers.size())) {
  for (Index p = 0; p < ranks_; ++p) {
    for (const Interval& rows : readers[std::size_t(p)].intervals()) locations_.push_back({rows, p});
    const bool is_idle = readers[std::size_t(p)].count() == 0;
    if (p > 0 && is_idle != (readers[std::size_t(p - 1)].count() == 0)) idle_cuts_.push_back(p);
  }
  std::sort(locations_.begin(), locations_.end(),
            [](const Location& a, const Location& b) { return a.rows.begin < b.rows.begin; });
  if (!locations_.empty()) held_ = {locations_.front().rows.begin, locations_.back().rows.end};
  const std::vector<SharedPiece> pieces = shared_pieces(layout.documents, readers);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (!is_passed(pieces, i, ranks_)) turns_.push_back({pieces[i].rows, pieces[i].rank});
  }
  Index shortest = documents_end(), largest_stride = 1;
  for (const Location& location : locations_) shortest = std::min(shortest, location.rows.size());
  for (Index i = pairs_.begin; i < pairs_.end; ++i) {
    const Pair& pair = layout.pattern.pairs[std::size_t(i)];
    const Index longest = pair.segment == whole_document ? documents_end() : pair.segment;
    largest_stride = std::max(largest_stride, std::min(pair.dilation, longest));
  }
  widen_ = core::ceil_div(largest_stride, std::max<Index>(1, shortest));
}

Index Readers::rank_of(Index row) const {
  const auto next = std::upper_bound(locations_.begin(), locations_.end(), row,
                                     [](Index r, const Location& location) { return r < location.rows.begin; });
  return (next - 1)->rank;
}

Crossings Readers::crossings(Index owner) const {
  Crossings all;
  for (const Interval& rows : owners_[std::size_t(owner)].intervals()) {
    all.emplace_back();
    for (Index i = pairs_.begin; i < pairs_.end; ++i) {
      all.back().push_back(crossing(layout_.pattern.pairs[std::size_t(i)], layout_, rows));
    }
  }
  return all;
}

bool Readers::is_any(const Crossings& crossings) {
  for (const auto& pairs : crossings) {
    for (const auto& segments : pairs) {
      if (!segments.empty()) return true;
    }
  }
  return false;
}

std::vector<ReaderRun> Readers::runs(Index owner, const Crossings& crossings, Index up) const {
  std::vector<Index> cuts{0, owner, owner + 1, core::wrap(owner + up + 1, ranks_), ranks_};
  cuts.insert(cuts.end(), idle_cuts_.begin(), idle_cuts_.end());
  if (are_small() && kind_ == Runs::exact) {
    for (Index p = 0; p < ranks_; ++p) cuts.push_back(p);
  } else {
    for (std::size_t i = 0; i < crossings.size(); ++i) {
      for (std::size_t j = 0; j < crossings[i].size(); ++j) {
        const Pair& pair = layout_.pattern.pairs[std::size_t(pairs_.begin) + j];
        for (const Interval& segment : crossings[i][j]) {
          append_cuts(segment, cuts);
          if (pair.window) append_window_cuts(pair, segment, owners_[std::size_t(owner)].intervals()[i], cuts);
        }
      }
    }
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  std::vector<ReaderRun> runs;
  std::size_t first = 0;  // index of the first run after the owner
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    if (cuts[i] == owner) {
      first = runs.size();
    } else {
      runs.push_back({cuts[i], cuts[i + 1], joined(cuts[i], cuts[i + 1])});
    }
  }
  std::rotate(runs.begin(), runs.begin() + std::ptrdiff_t(first), runs.end());
  return runs;
}

/// Appends the ranks at which the set of the owner's rows that are read through this segment may change.
void Readers::append_cuts(Interval segment, std::vector<Index>& cuts) const {
  const auto cut_out = [&](Index rank) { cuts.insert(cuts.end(), {rank, rank + 1}); };
  segment = core::intersect(segment, held_);
  if (segment.empty()) return;
  cut_out(rank_of(segment.begin));
  cut_out(rank_of(segment.end - 1));
  auto turn = std::partition_point(turns_.begin(), turns_.end(),
                                   [&](const Location& one) { return one.rows.end <= segment.begin; });
  for (; turn != turns_.end() && turn->rows.begin < segment.end; ++turn) cut_out(turn->rank);
}

/// Appends the ranks that may see some but not all of the rows `own` through a window. Each of these ranks becomes a
/// run of its own. Every other rank sees all rows of `own` if the rank's rows are at most `left` dilations after the
/// first row of `own` or at most `right` dilations before the last row of `own`; otherwise it sees only rows of
/// Window::first.
void Readers::append_window_cuts(const Pair& pair, Interval viewers, Interval own, std::vector<Index>& cuts) const {
  own = core::intersect(own, document_of(layout_.documents, viewers.begin));
  const auto cut_out = [&](Interval rows) {
    visit_holders(rows, [&](Index rank, Interval) { cuts.insert(cuts.end(), {rank, rank + 1}); });
  };
  const Index n = documents_end(), r = pair.dilation;
  const auto distance = [&](Index comb_rows) { return comb_rows > n / r ? n : comb_rows * r; };
  const auto& window = *pair.window;
  const Index after = distance(window.left + layout_.granule - 1),
              before = layout_.pattern.causal ? 0 : distance(window.right);
  cut_out(core::intersect(viewers, {own.begin + distance(window.left), own.end + after}));
  cut_out(core::intersect(viewers, {own.begin - before, own.end - before}));
}

/// Returns the rows of as many of the run's first ranks as together have rows of every offset; empty if one rank is
/// enough.
StoredRows Readers::joined(Index begin, Index end) const {
  if (widen_ == 1 || end - begin == 1) return {};
  return united(readers_, {begin, std::min(end, begin + widen_)});
}

std::vector<Index> Readers::key(Index owner, const std::vector<ReaderRun>& runs, const Crossings& crossings,
                                bool coarse) const {
  std::vector<Index> key;
  const auto& own = owners_[std::size_t(owner)].intervals();
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (!coarse) key.push_back(own[i].size());
    const Interval read = core::intersect(own[i], layout_.keys);
    key.push_back(coarse ? Index(read.empty()) : read.begin - own[i].begin);
    if (!coarse) key.push_back(read.size());
    for (std::size_t j = 0; j < crossings[i].size(); ++j) {
      const Pair& pair = layout_.pattern.pairs[std::size_t(pairs_.begin) + j];
      const Index r = pair.dilation;
      key.push_back(Index(crossings[i][j].size()));
      for (const Interval& segment : crossings[i][j]) {
        if (pair.window) {
          append_window_key(pair, segment, own[i], runs, coarse, key);
          continue;
        }
        if (!coarse) {
          key.push_back(segment.begin < own[i].begin ? -1 - (own[i].begin - segment.begin) % r
                                                     : segment.begin - own[i].begin);
          key.push_back(std::min(segment.end, own[i].end) - own[i].begin);
        }
        for (const ReaderRun& run : runs) append_hits(segment, own[i], r, run.rows(readers_), coarse, key);
      }
    }
  }
  return key;
}

/// Appends where the interval lies relative to its document's first rows, and which viewers (rows that may see the
/// interval) are in each run.
void Readers::append_window_key(const Pair& pair, Interval viewers, Interval own, const std::vector<ReaderRun>& runs,
                                bool coarse, std::vector<Index>& key) const {
  const Interval document = document_of(layout_.documents, viewers.begin);
  if (!coarse) {
    key.push_back(std::max(document.begin - own.begin, -std::max(pair.window->first, pair.window->viewers)));
    key.push_back(std::min(document.end, own.end) - own.begin);
  }
  for (const ReaderRun& run : runs) {
    const StoredRows& reader = run.rows(readers_);
    for (std::size_t i = reader.first_ending_after(viewers.begin); i < reader.intervals().size(); ++i) {
      const Interval held = core::intersect(reader.intervals()[i], viewers);
      if (held.empty()) break;
      key.insert(key.end(), {coarse ? 0 : held.begin - own.begin, coarse ? 0 : held.size()});
      if (coarse) break;
    }
    key.push_back(-1);  // ends the list
  }
}

/// Appends which offsets of the segment have a row at the reader: -1 for all; otherwise the reader's intervals, each of
/// which has fewer than r rows, or, if `coarse`, -3 for some offsets.
void Readers::append_hits(Interval segment, Interval own, Index r, const StoredRows& reader, bool coarse,
                          std::vector<Index>& key) const {
  const std::size_t mark = key.size();
  const Interval seen{layout_.pattern.causal ? std::max(segment.begin, own.end) : segment.begin, segment.end};
  for (std::size_t i = reader.first_ending_after(seen.begin); i < reader.intervals().size(); ++i) {
    const Interval held = core::intersect(reader.intervals()[i], seen);
    if (reader.intervals()[i].begin >= seen.end) break;
    if (held.size() >= r) {
      key.resize(mark);
      key.push_back(-1);
      return;
    }
    if (held.empty()) continue;
    key.push_back((held.begin - segment.begin) % r);
    key.push_back(held.size());
  }
  if (coarse && key.size() > mark) key.resize(mark + 1), key[mark] = -3;
  key.push_back(-2);  // ends the list
}

}  // namespace annulus::pattern
