// From rows to work: which pieces of combs in a block of keys the query rows of a rank may see.
#pragma once

#include <vector>

#include "annulus/core/work_item.hpp"
#include "annulus/pattern/combs.hpp"
#include "annulus/pattern/key_rows.hpp"

namespace annulus::pattern {

/// The pattern laid over one problem: everything that decides which rows meet.
struct Layout {
  Pattern pattern;
  Documents documents;
  Index heads = 1;
  Index kv_heads = 1;
};

/// All work that a block storing `keys` makes possible for a rank storing `queries`: one list per pair, in the order of
/// the pairs. Inside a list no (query row, head) appears twice. Comb indices count from the comb's own start, so `t_key
/// <= t_query` is causal. Pieces that causality hides altogether are left out.
///
/// Worked example: n = 10, pair (8, 2), one head, causal; queries = rows 5..9, keys = rows 0..4. Segment 0..7, offset
/// 0, picks rows 0 2 4 6: query run {t 3, row 1, stride 2, count 1} (row 6), key run {t 0, row 0, stride 2, count 3}
/// (rows 0 2 4). Segment 8..9 has no row among the keys: no item.
std::vector<core::WorkList> work_lists(const Layout& layout, const StoredRows& queries, const KeyRows& keys);

/// Kept (query, key, head) triples of the lists, exactly, from closed forms; for one batch entry.
Index kept_triples(const std::vector<core::WorkList>& lists);

}  // namespace annulus::pattern
