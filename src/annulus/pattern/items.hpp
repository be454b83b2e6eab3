// From rows to work: which pieces of combs in a block of keys the query rows of a rank may see.
#pragma once

#include <limits>
#include <vector>

#include "annulus/core/work_item.hpp"
#include "annulus/pattern/combs.hpp"
#include "annulus/pattern/key_rows.hpp"

namespace annulus::pattern {

/// End of a share that has all heads, or of pairs that has all pairs, from its begin on.
inline constexpr Index every_head = std::numeric_limits<Index>::max();
inline constexpr Index every_pair = std::numeric_limits<Index>::max();
inline constexpr Index every_row = std::numeric_limits<Index>::max();

/// The pattern laid over one problem: everything that decides which rows meet.
///
/// A rank may work on some heads only: a share. Offsets stay those of the whole problem, while work items and packed
/// rows
/// number the share's heads from 0, as they lie in the tensors of such a rank. Worked example: H = 6, Hkv = 2, share
/// [2, 5): query head 2 is item head 0, heads 3 and 4 are 1 and 2; they read both K/V heads, 0 and 1.
struct Layout {
  Pattern pattern;
  Documents documents;
  Index heads = 1;                 ///< of the whole problem
  Index kv_heads = 1;              ///< of the whole problem
  Interval share{0, every_head};   ///< query heads to work on
  Interval pairs{0, every_pair};   ///< of the pattern, to work on; the others are as if no segment had any row of them
  Index granule = 1;               ///< comb rows that are added in one step: rows are cut at places of a CutGrid alone
  Interval queries{0, every_row};  ///< rows that are queries; the others are keys alone
  Index keys = every_row;          ///< rows before this one are keys. Fewer than all only in dense attention of one
                                   ///< document, whose queries then stand after all keys

  /// Query heads that read one key/value head.
  Index group() const { return heads / kv_heads; }
  Interval query_heads() const { return core::intersect(share, {0, heads}); }
  Interval used_pairs() const { return core::intersect(pairs, {0, Index(pattern.pairs.size())}); }
  /// K/V heads that the query heads read.
  Interval key_heads() const { return heads_read(query_heads(), group()); }
};

/// Rows [begin, end) of `document` whose queries may see keys of `rows` through a pair that is a window.
/// Worked example: causal, left 2, r = 3: keys [6, 10) are seen by rows [6, 16), by row 15 the key 9.
Interval viewers_of(const Pair& pair, const Layout& layout, Interval document, Interval rows);

/// Calls visit(kv, served) for every K/V head that some of `heads` read and that the share includes: `kv` and the heads
/// `served` that read it as the share numbers them.
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

/// All work that a block storing `keys` makes possible for a rank storing `queries`: a list for each of sights_of() of
/// each pair, in their order, empty for pairs that are not to be worked on. Inside a list no (query row, head) appears
/// twice. Comb indices count from the comb's own start, so `t_key <= t_query` is causal. Pieces that a mask hides
/// altogether are left out.
///
/// `part` takes of the keys that a row sees only those up to its own (upto) or after it (after: none when causal).
/// Throws Error where rows or keys are cut inside a granule of the layout; but for rows that no key or query of the
/// list sees, which may be left away after the others.
///
/// Worked example: n = 10, pair (8, 2), one head, causal; queries = rows 5..9, keys = rows 0..4. Segment 0..7, offset
/// 0, picks rows 0 2 4 6: query run {t 3, row 1, stride 2, count 1} (row 6), key run {t 0, row 0, stride 2, count 3}
/// (rows 0 2 4). Segment 8..9 has no row among the keys: no item.
std::vector<core::WorkList> work_lists(const Layout& layout, const StoredRows& queries, const KeyRows& keys,
                                       const core::Band& part = {});

/// Kept (query, key, head) triples of a list or of all lists, exactly, from closed forms; for one batch entry.
core::Count kept_triples(const core::WorkList& list);
core::Count kept_triples(const std::vector<core::WorkList>& lists);

}  // namespace annulus::pattern
