// Turns rows into work items. An item names rows of one comb: queries of a rank, and keys in an array that these
// queries may see.
#pragma once

#include <limits>
#include <vector>

#include "annulus/core/work_item.hpp"
#include "annulus/pattern/combs.hpp"
#include "annulus/pattern/key_rows.hpp"

namespace annulus::pattern {

/// As the end of an interval in Layout, these constants mean all heads, pairs or rows from the interval's begin on.
inline constexpr Index every_head = std::numeric_limits<Index>::max();
inline constexpr Index every_pair = std::numeric_limits<Index>::max();
inline constexpr Index every_row = std::numeric_limits<Index>::max();

/// The pattern applied to one problem: everything that decides which rows see which other rows.
///
/// A rank may work on some of the heads only: its share. Heads keep the offsets that they have in the whole problem.
/// Work items and packed rows number the share's heads from 0, in the order in which the rank's tensors store them.
/// Worked example: H = 6, Hkv = 2, share [2, 5): query heads 2, 3 and 4 of the problem are heads 0, 1 and 2 of the
/// items; together they read both K/V heads, 0 and 1.
struct Layout {
  Pattern pattern;
  Documents documents;
  Index heads = 1;                 ///< of the whole problem
  Index kv_heads = 1;              ///< of the whole problem
  Interval share{0, every_head};   ///< query heads to work on
  Interval pairs{0, every_pair};   ///< pairs of the pattern to work on; all others count as if they picked no row
  Index granule = 1;               ///< comb rows added in one operation; rows are cut only where a CutGrid allows
  Interval queries{0, every_row};  ///< rows that are queries; all other rows are only keys
  /// Rows that are keys. They may be fewer than all rows only if attention is dense and not causal, there is one
  /// document, and queries have no row numbers.
  Interval keys{0, every_row};

  /// Number of query heads that read one key/value head.
  Index group() const { return heads / kv_heads; }
  Interval query_heads() const { return core::intersect(share, {0, heads}); }
  Interval used_pairs() const { return core::intersect(pairs, {0, Index(pattern.pairs.size())}); }
  /// K/V heads that the query heads read.
  Interval key_heads() const { return heads_read(query_heads(), group()); }
};

/// The rows [begin, end) of `document` that may see keys in `rows` through a pair that is a window.
/// Worked example: causal, left 2, r = 3: rows [6, 16) see keys in [6, 10); row 15 sees key 9.
Interval viewers_of(const Pair& pair, const Layout& layout, Interval document, Interval rows);

/// Calls visit(kv, served) for every K/V head of the share that some of `heads` read. `served` are the members of
/// `heads` that read head `kv`. visit() gets head numbers of the share; `heads` has head numbers of the whole problem.
template <class Visit>
void for_each_key_head(const Layout& layout, const HeadSet& heads, Visit&& visit) {
  const Index group = layout.group(), first_head = layout.query_heads().begin, first_kv = layout.key_heads().begin;
  const HeadSet ours = intersect(heads, layout.query_heads());
  if (ours.count == 0) return;
  const Index last = ours.first + (ours.count - 1) * ours.stride;
  for (Index kv = ours.first / group; kv <= last / group; ++kv) {
    HeadSet served = intersect(ours, {kv * group, (kv + 1) * group});
    if (served.count == 0) continue;
    served.first -= first_head;
    visit(kv - first_kv, served);
  }
}

/// Returns all work that a rank with the rows `queries` has on an array with the rows `keys`: for each pair, one list
/// for each of its visible_parts(). Lists are empty for pairs outside Layout::pairs. In a list each (query row, head)
/// appears at most once. Comb indices count from the comb's own start, so a causal mask is `t_key <= t_query`. Pieces
/// of which no query sees a row are left out.
///
/// `part` selects some of the keys that a row sees: Band::upto the keys up to the row itself, Band::after the keys
/// after it (none if causal). Throws Error if queries or keys are cut inside a granule of the layout. But the end of a
/// granule may be missing if the missing queries see no key of the list, or no query of the list sees the missing keys.
///
/// Worked example: n = 10, pair (8, 2), one head, causal; queries = rows 5..9, keys = rows 0..4. Segment 0..7, offset
/// 0, picks rows 0 2 4 6: query run {t 3, row 1, stride 2, count 1} (row 6), key run {t 0, row 0, stride 2, count 3}
/// (rows 0 2 4). Segment 8..9 has no row among the keys: no item.
std::vector<core::WorkList> work_lists(const Layout& layout, const StoredRows& queries, const KeyRows& keys,
                                       const core::Band& part = {});

/// Return the exact number of kept (query, key, head) triples of one list or of all lists, by closed forms, for one
/// batch entry.
core::Count kept_triples(const core::WorkList& list);
core::Count kept_triples(const std::vector<core::WorkList>& lists);

}  // namespace annulus::pattern
