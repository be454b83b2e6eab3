#include "annulus/pattern/filled_keys.hpp"

#include <algorithm>

namespace annulus::pattern {
namespace {

using core::FilledRuns;

/// The number s of rows in a full segment of the document.
Index full_segment(const Pair& pair, Interval document) {
  return pair.segment == whole_document ? document.size() : std::min(pair.segment, document.size());
}

/// Adds the run of the comb rows in `rows`, which see `keys` filled-in keys each. `stored`: stored row of rows.begin.
void append_run(const Comb& comb, const HeadSet& heads, Index keys, Interval rows, Index stored, FilledRuns& runs) {
  const Interval t = indices_within(comb, rows);
  if (keys == 0 || t.empty() || heads.count == 0) return;
  runs.push_back(
      {stored + comb.row(t.begin) - rows.begin, comb.stride, t.size(), heads.first, heads.stride, heads.count, keys});
}

/// The runs of one pair. `offsets` has only heads of the share; an offset may have no head.
FilledRuns runs_of(const Pair& pair, const Documents& documents, const std::vector<UsedOffset>& offsets,
                   const StoredRows& queries) {
  FilledRuns runs;
  for (std::size_t k = 0; k < queries.intervals().size(); ++k) {
    const Interval& rows = queries.intervals()[k];
    for (const Interval& segment : segments_touching(pair, documents, rows)) {
      const Index full = full_segment(pair, document_of(documents, segment.begin));
      if (segment.size() == full && full % pair.dilation == 0) continue;  // true for nearly all segments
      for (const UsedOffset& used : offsets) {
        const Comb comb = comb_of(segment, pair.dilation, used.offset);
        append_run(comb, used.heads, core::ceil_div(full, pair.dilation) - comb.count, rows, queries.stored_begin(k),
                   runs);
      }
    }
  }
  return runs;
}

}  // namespace

std::vector<FilledRuns> filled_keys(const Layout& layout, const StoredRows& queries) {
  std::vector<FilledRuns> all(layout.pattern.pairs.size());
  if (layout.pattern.semantics != Semantics::torchscale || layout.pattern.causal) return all;
  const Interval share = layout.query_heads();
  for (Index i = layout.used_pairs().begin; i < layout.used_pairs().end; ++i) {
    std::vector<UsedOffset> offsets = used_offsets(layout.pattern, i, layout.heads);
    for (UsedOffset& used : offsets) {
      used.heads = intersect(used.heads, share);
      used.heads.first -= share.begin;
    }
    all[std::size_t(i)] = runs_of(layout.pattern.pairs[std::size_t(i)], layout.documents, offsets, queries);
  }
  return all;
}

std::optional<Displacement> find_displacement(const Pattern& pattern, const Documents& documents) {
  if (pattern.semantics != Semantics::torchscale) return {};
  for (std::size_t d = 0; d + 1 < documents.size(); ++d) {
    if (documents.is_gap(Index(d))) continue;
    const Interval document{documents[d], documents[d + 1]};
    for (std::size_t i = 0; i < pattern.pairs.size(); ++i) {
      const Index full = full_segment(pattern.pairs[i], document);
      if (full < document.size() && full % pattern.pairs[i].dilation != 0) return {{Index(i), Index(d), document}};
    }
  }
  return {};
}

}  // namespace annulus::pattern
