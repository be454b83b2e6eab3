// The (query, key, head) triples of work lists, written out one by one, and how often the definition requires each
// triple.
#pragma once

#include <map>
#include <tuple>

#include "support/random_layout.hpp"

namespace annulus::test {

/// (query row, key row, head) -> how often; row numbers are global.
using Triples = std::map<std::tuple<Index, Index, Index>, Index>;

/// The global number of the row with index `stored` in a block.
inline Index global_row(const pattern::StoredRows& rows, Index stored) {
  for (std::size_t i = rows.intervals().size(); i-- > 0;) {
    if (stored >= rows.stored_begin(i)) return rows.intervals()[i].begin + stored - rows.stored_begin(i);
  }
  return -1;
}

/// The global number of the row with index `stored` in a block of keys, for key/value head `kv`; -1: there is none.
inline Index global_key(const pattern::KeyRows& keys, Index kv, Index stored) {
  for (const auto& owned : keys.owned()) {
    for (const auto& held : owned.heads[keys.is_packed() ? std::size_t(kv) : 0]) {
      const Index i = stored - held.stored;
      if (i >= 0 && i < held.range.count) return held.range.row(i);
    }
  }
  return -1;
}

/// Adds every triple of the lists to `triples`, with head numbers of the whole problem. Returns false if an item has a
/// query head that does not read the item's key/value head.
inline bool add_triples(const std::vector<core::WorkList>& lists, const pattern::Layout& layout,
                        const pattern::StoredRows& queries, const pattern::KeyRows& keys, Triples& triples) {
  bool heads_fit = true;
  const auto each = [](const core::WorkList& list, const core::RowMap& map, auto&& visit) {
    for (Index i = 0; i < map.runs; ++i) {
      const core::Run& run = list.runs[std::size_t(map.first_run + i)];
      for (Index j = 0; j < run.count; ++j) visit(run.t + j, run.row + j * run.stride);
    }
  };
  for (const core::WorkList& list : lists) {
    for (const core::WorkItem& item : list.items) {
      for (Index h = 0; h < item.head_count; ++h) {
        const Index head = layout.query_heads().begin + item.head_first + h * item.head_stride;
        heads_fit = heads_fit && head / layout.group() == layout.key_heads().begin + item.kv_head;
        each(list, item.query, [&](Index tq, Index query) {
          each(list, item.key, [&](Index tk, Index key) {
            if (tq - tk > item.band.left || tk - tq > item.band.right) return;
            triples[{global_row(queries, query), global_key(keys, item.kv_head, key), head}] += 1;
          });
        });
      }
    }
  }
  return heads_fit;
}

/// The triples that the definition requires, from the reference's multiplicities.
inline Triples defined_triples(const RandomLayout& drawn) {
  const kernels::ReferencePattern words = reference_pattern(drawn.layout);
  Triples triples;
  for (Index x = 0; x < drawn.n; ++x) {
    const core::Interval document = kernels::document_of(words, drawn.n, x);
    for (Index p = document.begin; p < document.end; ++p) {
      for (Index head = 0; head < drawn.layout.heads; ++head) {
        const Index times = kernels::multiplicity(words, drawn.layout.heads, head, x, p, document);
        if (times > 0) triples[{x, p, head}] = times;
      }
    }
  }
  return triples;
}

}  // namespace annulus::test
