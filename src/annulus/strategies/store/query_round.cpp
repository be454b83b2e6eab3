#include "annulus/strategies/store/query_round.hpp"

#include <algorithm>
#include <queue>

#include "annulus/strategies/backward_computation.hpp"

namespace annulus::strategies {
namespace {

constexpr Index dense = 4;  // if at least one in this many rows is needed, all are read, in one piece

/// Exchanges queries and keys in the pattern, so that the result says which queries see a block's keys.
pattern::Layout mirrored(pattern::Layout layout) {
  layout.pattern = pattern::mirrored(std::move(layout.pattern));
  return layout;
}

/// Returns the rows of all ranges, ascending, each row once.
std::vector<core::Interval> merged(const std::vector<pattern::StridedRange>& ranges) {
  struct Next {
    Index row;
    std::size_t range;
    Index i;
    bool operator<(const Next& other) const { return row > other.row; }  // the queue's top is the smallest row
  };
  std::priority_queue<Next> queue;
  for (std::size_t r = 0; r < ranges.size(); ++r) queue.push({ranges[r].first, r, 0});
  std::vector<core::Interval> rows;
  while (!queue.empty()) {
    const Next next = queue.top();
    queue.pop();
    if (rows.empty() || next.row > rows.back().end) rows.push_back({next.row, next.row + 1});
    rows.back().end = std::max(rows.back().end, next.row + 1);
    const pattern::StridedRange& range = ranges[next.range];
    if (next.i + 1 < range.count) queue.push({range.row(next.i + 1), next.range, next.i + 1});
  }
  return rows;
}

/// Returns the rows that any head needs; all rows from the first of them to the last if at least one in `dense` of
/// these rows is needed.
std::vector<pattern::StridedRange> ranges_of(const pattern::OwnerInterval& owned) {
  std::vector<pattern::StridedRange> all;
  for (const auto& ranges : owned.heads) all.insert(all.end(), ranges.begin(), ranges.end());
  all = pattern::reduce(std::move(all));
  if (all.empty()) return all;
  core::Interval span{all.front().first, all.front().end()};
  for (const pattern::StridedRange& range : all) span.end = std::max(span.end, range.end());
  if (pattern::row_count(all) * dense < span.size()) return all;
  return {{span.begin, 1, span.size()}};
}

std::vector<core::Interval> intervals_of(const pattern::OwnerInterval& owned) {
  const std::vector<pattern::StridedRange> ranges = ranges_of(owned);
  if (ranges.size() == 1 && ranges[0].stride == 1) return {{ranges[0].first, ranges[0].end()}};
  return merged(ranges);
}

Index count_of(const pattern::OwnerInterval& owned) {
  const std::vector<pattern::StridedRange> ranges = ranges_of(owned);
  if (ranges.size() == 1) return ranges[0].count;
  return pattern::StoredRows(merged(ranges)).count();
}

}  // namespace

Index query_row_bytes(const Problem& problem, bool dlse) {
  return problem.query_row_bytes() + 2 * problem.out_row_bytes() + problem.normalizer_row_bytes() +
         dlse * problem.lse_row_bytes();
}

QueryRound::QueryRound(const Problem& round, const pattern::Partition& partition, bool dlse)
    : ReadRound(round, partition, mirrored(round.layout())), dlse_(dlse) {}

/// True if hop h brings rows. With a causal mask, queries in blocks before this block see none of its keys. This
/// function leaves out such blocks, because the mirrored pattern of segments has no mask that would leave them out.
bool QueryRound::reads_any(int block, int h) const {
  return !(problem().pattern.causal && all().receive_from(block, h) < block) && all().rows_received(block, h) > 0;
}

pattern::StoredRows QueryRound::rows_of(const pattern::PackedRows& picked) {
  std::vector<core::Interval> intervals;
  for (const pattern::OwnerInterval& owned : picked) {
    const std::vector<core::Interval> rows = intervals_of(owned);
    intervals.insert(intervals.end(), rows.begin(), rows.end());
  }
  return pattern::joined(intervals);
}

Index QueryRound::rows_read(int block, int h) const {
  Index rows = 0;
  for (const pattern::OwnerInterval& owned : all().hop(block, h).receive) rows += count_of(owned);
  return rows;
}

std::vector<Index> QueryRound::buffer_bytes(int block) const {
  const std::array<Index, slots> bytes = slot_bytes(block);
  const Index most = *std::max_element(bytes.begin(), bytes.end()) / query_row_bytes(problem(), dlse_);
  const Index delta = problem().shape.batch * most * problem().shape.heads * Index(core::bytes_of(problem().precision));
  const Index panels = backward_panels(problem(), most) - backward_panels(problem(), rows(block).count());
  return {total(bytes) + delta + std::max<Index>(0, panels)};
}

}  // namespace annulus::strategies
