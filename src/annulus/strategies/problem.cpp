#include "annulus/strategies/problem.hpp"

namespace annulus::strategies {

core::Shape narrowed(core::Shape whole, core::Interval query) {
  whole.kv_heads = pattern::heads_read(query, whole.group()).size();
  whole.heads = query.size();
  return whole;
}

void place_queries(Problem& problem, std::optional<Index> offset, Index count) {
  const Index keys = problem.shape.sequence;
  const Index first = offset ? *offset : count <= keys ? 0 : keys;
  if (first == 0 && count == keys && problem.key_ranges.empty()) return;
  problem.queries = {first, first + count};
  if (problem.has_queries_after_all_keys()) problem.documents = {0, problem.queries->end};
}

pattern::Partition query_rows(const Problem& problem, const pattern::Partition& keys) {
  if (!problem.queries) return keys;
  const core::Interval queries = *problem.queries;
  if (problem.all_queries) return pattern::Partition(keys.size(), pattern::StoredRows({queries}));
  if (!problem.has_queries_after_all_keys()) return pattern::within(keys, queries);
  // `keys` has one element for each rank, or one for each group of ranks with all rows of the group.
  pattern::Partition rows;
  core::Count before = 0;
  const auto row_of = [&](core::Count key) {
    return queries.begin + Index(key * queries.size() / core::Count(problem.shape.sequence));
  };
  for (const pattern::StoredRows& held : keys) {
    const core::Count after = before + held.count();
    rows.push_back(pattern::StoredRows({{row_of(before), row_of(after)}}));
    before = after;
  }
  return rows;
}

HeadShare share_of(const Problem& problem, core::Interval query) {
  if (!problem.share) return {problem.shape.heads, problem.shape.kv_heads, query};
  const auto& [heads, kv_heads, mine] = *problem.share;
  return {heads, kv_heads, {mine.begin + query.begin, mine.begin + query.end}};
}

Problem narrowed(const Problem& whole, core::Interval query) {
  Problem narrow = whole;
  narrow.share = share_of(whole, query);
  narrow.shape = narrowed(whole.shape, query);
  return narrow;
}

core::Buffer made(const core::Buffer& callers, const std::string& name, Index bytes) {
  return callers.is_borrowed() && callers.bytes() == bytes ? callers : core::Buffer(name, bytes);
}

std::string why_not_by_granules(const Problem& problem) {
  if (problem.statistics.any()) return "statistics are asked for";
  if (problem.rule.any()) return "scores have a cap or a bias";
  if (problem.queries) return "queries that are fewer or more than the keys may begin anywhere";
  return pattern::why_no_grid(problem.pattern, kernels::granule_of(problem.backend));
}

void make_reproducible(Problem& problem, bool wanted, bool has_units) {
  problem.reproducible = wanted;
  const bool by_granules = wanted && has_units && why_not_by_granules(problem).empty();
  problem.granule = by_granules ? kernels::granule_of(problem.backend) : 1;
}

std::vector<Problem> rounds_of(const Problem& problem) {
  std::vector<Problem> all(problem.reproducible ? problem.pattern.pairs.size() : 1, problem);
  for (std::size_t i = 0; problem.reproducible && i < all.size(); ++i) all[i].pairs = {Index(i), Index(i) + 1};
  return all;
}

}  // namespace annulus::strategies
