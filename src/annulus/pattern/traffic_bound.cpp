#include "annulus/pattern/traffic_bound.hpp"

#include <algorithm>

namespace annulus::pattern {
namespace {

constexpr double affordable_work = 1 << 21;  // this many evaluations of an interval take some seconds on one core

/// The largest number of intervals of one rank in one segment.
Index intervals_of_segment(const Layout& layout, const Partition& partition) {
  Index most = 1;
  for (Index i = layout.used_pairs().begin; i < layout.used_pairs().end; ++i) {
    for (const StoredRows& rows : partition) {
      Index count = 0, end = 0;  // `count` intervals so far in the current segment, which ends at `end`
      for (const Interval& interval : rows.intervals()) {
        count = interval.begin < end ? count + 1 : 1;
        most = std::max(most, count);
        if (interval.end <= end) continue;
        end = segment_of(layout.pattern.pairs[std::size_t(i)], layout.documents, interval.end - 1).end;
        count = 1;  // the interval is the first one of the next segment
      }
    }
  }
  return most;
}

/// Returns false if the interval holds only whole documents. Then no other rank reads rows of the interval.
bool is_shared(const Documents& documents, const Interval& rows) {
  return !std::binary_search(documents.begin(), documents.end(), rows.begin) ||
         !std::binary_search(documents.begin(), documents.end(), rows.end);
}

}  // namespace

bool is_affordable(const Layout& layout, const Partition& partition) {
  const double ranks = double(partition.size()), pairs = double(layout.used_pairs().size());
  double evaluations = 0, cubes = 0;
  for (const StoredRows& rows : partition) {
    const double shared = double(std::count_if(rows.intervals().begin(), rows.intervals().end(),
                                               [&](const Interval& one) { return is_shared(layout.documents, one); }));
    evaluations += shared * std::min(ranks, 4 * shared * pairs + 4);
    cubes += shared * shared * shared;
    if (evaluations > affordable_work && cubes > affordable_work / 2) return false;
  }
  // With zigzag, a rank has at most two intervals in a segment. Counting then takes only seconds, also for 65,536
  // ranks.
  const double together = double(intervals_of_segment(layout, partition));
  return evaluations * together <= affordable_work || (together <= 2 && cubes <= affordable_work / 2);
}

Traffic gathered_traffic(const Layout& layout, const Partition& partition) {
  const Index heads = layout.key_heads().size(), peers = Index(partition.size()) - 1;
  Traffic traffic;
  Index n = 0;
  for (const StoredRows& rows : partition) n += rows.count();
  for (const StoredRows& rows : partition) {
    traffic.received.push_back((n - rows.count()) * heads);
    traffic.sent.push_back(peers * rows.count() * heads);
    traffic.messages.push_back(peers);
  }
  traffic.largest = most_rows(partition) * heads;
  return traffic;
}

}  // namespace annulus::pattern
