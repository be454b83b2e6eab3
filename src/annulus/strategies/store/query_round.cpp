#include "annulus/strategies/store/query_round.hpp"

#include <queue>

namespace annulus::strategies {
namespace {

constexpr Index dense = 4;  // rows of which at least one in so many is asked for are read as they lie

pattern::Layout without_mask(pattern::Layout layout) {
  layout.pattern.causal = false;
  return layout;
}

/// Ascending rows of all ranges, each once, from range to range as they come.
std::vector<core::Interval> merged(const std::vector<pattern::StridedRange>& ranges) {
  struct Next {
    Index row;
    std::size_t range;
    Index i;
    bool operator<(const Next& other) const { return row > other.row; }  // the smallest row on top
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

/// What any head has, or where that is dense one range of all rows between the first and the last.
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

QueryRound::QueryRound(const Problem& round, const pattern::Partition& partition)
    : problem_(round),
      partition_(partition),
      layout_(without_mask(round.layout())),
      hops_(layout_, partition, pattern::From::owners, -1, int(partition.size()) - 1) {}

/// Under a causal mask blocks before this one see none of its keys.
const std::vector<int>& QueryRound::reads(int block) const {
  if (block_ == block) return reads_;
  block_ = block;
  reads_.clear();
  for (int h = 0; h < hops_.count(block); ++h) {
    if (problem_.pattern.causal && hops_.receive_from(block, h) < block) continue;
    if (hops_.rows_received(block, h) > 0) reads_.push_back(h);
  }
  return reads_;
}

pattern::StoredRows QueryRound::rows(int block, std::size_t s) const {
  std::vector<core::Interval> intervals;
  for (const pattern::OwnerInterval& owned : hops_.hop(block, reads(block)[s - 1]).receive) {
    const std::vector<core::Interval> rows = intervals_of(owned);
    intervals.insert(intervals.end(), rows.begin(), rows.end());
  }
  return pattern::joined(intervals);
}

QueryRound::Counted QueryRound::counted(int block) const {
  Counted counted;
  for (std::size_t i = 0; i < reads(block).size(); ++i) {
    Index rows = 0;
    for (const pattern::OwnerInterval& owned : hops_.hop(block, reads(block)[i]).receive) rows += count_of(owned);
    counted.rows += rows;
    counted.slots[i % slots] = std::max(counted.slots[i % slots], rows);
  }
  return counted;
}

}  // namespace annulus::strategies
