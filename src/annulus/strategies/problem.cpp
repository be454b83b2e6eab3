#include "annulus/strategies/problem.hpp"

namespace annulus::strategies {

Problem narrowed(const Problem& whole, core::Interval query) {
  Problem narrow = whole;
  narrow.share = {whole.shape.heads, whole.shape.kv_heads, query};
  narrow.shape.heads = query.size();
  narrow.shape.kv_heads = pattern::heads_read(query, whole.shape.group()).size();
  return narrow;
}

std::vector<Problem> passes(const Problem& problem) {
  std::vector<Problem> all(problem.reproducible ? problem.pattern.pairs.size() : 1, problem);
  for (std::size_t i = 0; problem.reproducible && i < all.size(); ++i) all[i].pairs = {Index(i), Index(i) + 1};
  return all;
}

}  // namespace annulus::strategies
