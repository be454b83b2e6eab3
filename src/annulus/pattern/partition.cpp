#include "annulus/pattern/partition.hpp"

#include <algorithm>

namespace annulus::pattern {

StoredRows::StoredRows(std::vector<Interval> intervals) {
  for (const Interval& interval : intervals) {
    if (interval.empty()) continue;
    intervals_.push_back(interval);
    begins_.push_back(count_);
    count_ += interval.size();
  }
}

Partition contiguous_partition(Index n, int ranks) {
  const Index each = n / ranks;
  const Index larger = n % ranks;
  Partition partition;
  for (Index p = 0; p < ranks; ++p) {
    const Index begin = p * each + std::min(p, larger);
    partition.push_back(StoredRows({{begin, begin + each + (p < larger ? 1 : 0)}}));
  }
  return partition;
}

Partition root_partition(Index n, int ranks) {
  Partition partition(static_cast<std::size_t>(ranks));
  partition[0] = StoredRows({{0, n}});
  return partition;
}

}  // namespace annulus::pattern
