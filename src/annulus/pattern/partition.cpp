#include "annulus/pattern/partition.hpp"

#include <algorithm>
#include <limits>

namespace annulus::pattern {

StoredRows::StoredRows(const std::vector<Interval>& intervals) {
  for (const Interval& interval : intervals) {
    if (interval.empty()) continue;
    intervals_.push_back(interval);
    begins_.push_back(count_);
    count_ += interval.size();
  }
}

StoredRows::StoredRows(const StoredRows& whole, const std::vector<Interval>& intervals) : StoredRows(intervals) {
  const std::vector<Interval> at = stored_intervals(whole, *this);
  for (std::size_t i = 0; i < at.size(); ++i) begins_[i] = at[i].begin;
}

std::size_t StoredRows::first_ending_after(Index row) const {
  const auto found = std::partition_point(intervals_.begin(), intervals_.end(),
                                          [&](const Interval& interval) { return interval.end <= row; });
  return std::size_t(found - intervals_.begin());
}

StoredRows joined(const std::vector<Interval>& ascending) {
  std::vector<Interval> whole;
  for (const Interval& interval : ascending) {
    if (interval.empty()) continue;
    if (!whole.empty() && whole.back().end == interval.begin) {
      whole.back().end = interval.end;
    } else {
      whole.push_back(interval);
    }
  }
  return StoredRows(whole);
}

std::string_view name_of(PartitionKind kind) { return partition_table[std::size_t(kind)].name; }

int fullest(const Partition& partition) {
  const auto fewer = [](const StoredRows& a, const StoredRows& b) { return a.count() < b.count(); };
  return int(std::max_element(partition.begin(), partition.end(), fewer) - partition.begin());
}

Index most_rows(const Partition& partition) { return partition[std::size_t(fullest(partition))].count(); }

Partition contiguous_partition(Index n, int ranks) {
  Partition partition;
  for (int p = 0; p < ranks; ++p) partition.push_back(StoredRows({core::even_part(n, ranks, p)}));
  return partition;
}

Partition zigzag_partition(const std::vector<Index>& documents, int ranks) {
  const Index chunks = 2 * Index(ranks);
  std::vector<std::vector<Interval>> rows(static_cast<std::size_t>(ranks));
  for (std::size_t d = 0; d + 1 < documents.size(); ++d) {
    const Index begin = documents[d], n = documents[d + 1] - begin;
    for (Index c = 0; c < std::min(chunks, n); ++c) {  // if n < chunks, the first n chunks have one row each
      const Interval part = core::even_part(n, chunks, c);
      rows[std::size_t(std::min(c, chunks - 1 - c))].push_back({begin + part.begin, begin + part.end});
    }
  }
  Partition partition;
  // Chunks P - 1 and P of a document are one interval on the last rank.
  for (const auto& intervals : rows) partition.push_back(joined(intervals));
  return partition;
}

Partition block_cyclic_partition(Index n, int ranks, Index block) {
  std::vector<std::vector<Interval>> rows(static_cast<std::size_t>(ranks));
  for (Index begin = 0, b = 0; begin < n; begin += block, ++b) {
    rows[std::size_t(b % ranks)].push_back({begin, std::min(begin + block, n)});
  }
  Partition partition;
  for (const auto& intervals : rows) partition.push_back(joined(intervals));
  return partition;
}

Partition root_partition(Index n, int ranks) {
  Partition partition(static_cast<std::size_t>(ranks));
  partition[0] = StoredRows({{0, n}});
  return partition;
}

StoredRows taken(const StoredRows& rows, Interval part) {
  std::vector<Interval> intervals;
  Index before = 0;  // rows before the interval
  for (const Interval& whole : rows.intervals()) {
    const Index shift = whole.begin - before;  // global row minus stored row
    const Interval inside = core::intersect(whole, {part.begin + shift, part.end + shift});
    if (!inside.empty()) intervals.push_back(inside);
    before += whole.size();
  }
  return StoredRows(intervals);
}

StoredRows within(const StoredRows& rows, Interval range) {
  std::vector<Interval> intervals;
  for (const Interval& whole : rows.intervals()) intervals.push_back(core::intersect(whole, range));
  return StoredRows(intervals);
}

Partition within(const Partition& partition, Interval range) {
  Partition all;
  for (const StoredRows& rows : partition) all.push_back(within(rows, range));
  return all;
}

StoredRows united(const Partition& partition, Interval ranks) {
  std::vector<Interval> rows;
  const auto some = [&](auto&& visit) {
    for (Index p = ranks.begin; p < ranks.end; ++p) {
      const StoredRows& one = partition[std::size_t(p)];
      if (one.count() > 0) visit(one);
    }
  };
  Index count = 0;
  Interval span{std::numeric_limits<Index>::max(), 0};
  some([&](const StoredRows& one) {
    count += one.count();
    span = {std::min(span.begin, one.intervals().front().begin), std::max(span.end, one.intervals().back().end)};
  });
  if (count == 0) return {};
  if (count == span.size()) return StoredRows({span});  // saves sorting intervals, of which there may be millions
  some([&](const StoredRows& one) { rows.insert(rows.end(), one.intervals().begin(), one.intervals().end()); });
  std::sort(rows.begin(), rows.end(), [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  return joined(rows);
}

std::vector<Interval> stored_intervals(const StoredRows& whole, const StoredRows& part) {
  std::vector<Interval> stored;
  for (const Interval& rows : part.intervals()) {
    // The last interval of `whole` that begins at or before `rows` has all of `rows`, because `rows` lies inside one
    // interval.
    const auto& all = whole.intervals();
    const auto next = std::upper_bound(all.begin(), all.end(), rows.begin,
                                       [](Index row, const Interval& interval) { return row < interval.begin; });
    const auto i = std::size_t(next - all.begin()) - 1;
    const Index begin = whole.stored_begin(i) + rows.begin - all[i].begin;
    stored.push_back({begin, begin + rows.size()});
  }
  return stored;
}

}  // namespace annulus::pattern
