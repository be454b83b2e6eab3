#include "annulus/strategies/problem.hpp"

namespace annulus::strategies {

Problem narrowed(const Problem& whole, core::Interval query) {
  Problem narrow = whole;
  narrow.share = {whole.shape.heads, whole.shape.kv_heads, query};
  narrow.shape.heads = query.size();
  narrow.shape.kv_heads = pattern::heads_read(query, whole.shape.group()).size();
  return narrow;
}

}  // namespace annulus::strategies
