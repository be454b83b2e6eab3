// Problems that are only planned, never computed.
#pragma once

#include <utility>
#include <vector>

#include "annulus/strategies/problem.hpp"
#include "support/random_layout.hpp"

namespace annulus::strategies {

inline Problem problem_of(Index n, std::vector<pattern::Pair> pairs, bool causal) {
  Problem problem;
  problem.shape = {1, n, 4, 4, 16};
  problem.pattern.pairs = std::move(pairs);
  problem.pattern.causal = causal;
  problem.documents = {0, n};
  return problem;
}

inline Problem problem_of(const test::RandomLayout& drawn) {
  Problem problem;
  problem.shape = {2, drawn.n, drawn.layout.heads, drawn.layout.kv_heads, 8};
  problem.pattern = drawn.layout.pattern;
  problem.documents = drawn.layout.documents;
  return problem;
}

}  // namespace annulus::strategies
