#include "annulus/pattern/traffic_bound.hpp"

#include <algorithm>

#include "annulus/pattern/shared_documents.hpp"

namespace annulus::pattern {
namespace {

constexpr double affordable_work = 1 << 21;  // questions about an interval; some seconds on one core

/// Intervals of one rank that lie in one segment, at most.
Index intervals_of_segment(const Layout& layout, const Partition& partition) {
  Index most = 1;
  for (Index i = layout.used_pairs().begin; i < layout.used_pairs().end; ++i) {
    for (const StoredRows& rows : partition) {
      Index count = 0, end = 0;  // of the segment at hand
      for (const Interval& interval : rows.intervals()) {
        count = interval.begin < end ? count + 1 : 1;
        most = std::max(most, count);
        if (interval.end <= end) continue;
        end = segment_of(layout.pattern.pairs[std::size_t(i)], layout.documents, interval.end - 1).end;
        count = 1;  // it begins the next segment
      }
    }
  }
  return most;
}

/// Intervals of every rank that others read of, at most: those with a part of a document.
std::vector<double> shared_intervals(const Layout& layout, const Partition& partition) {
  std::vector<double> counts(partition.size());
  for (const SharedPiece& piece : shared_pieces(layout.documents, partition)) counts[std::size_t(piece.rank)] += 1;
  for (std::size_t p = 0; p < counts.size(); ++p) {
    counts[p] = std::min(counts[p], double(partition[p].intervals().size()));
  }
  return counts;
}

}  // namespace

bool is_affordable(const Layout& layout, const Partition& partition) {
  const double ranks = double(partition.size()), pairs = double(layout.used_pairs().size());
  double questions = 0, cubes = 0;
  for (const double intervals : shared_intervals(layout, partition)) {
    questions += intervals * std::min(ranks, 4 * intervals * pairs + 4);
    cubes += intervals * intervals * intervals;
  }
  if (questions > affordable_work) return cubes <= affordable_work / 2;
  return questions * double(intervals_of_segment(layout, partition)) <= affordable_work;
}

Traffic dense_traffic(const Layout& layout, const Partition& partition) {
  Traffic traffic;
  const Index n = layout.documents.back();
  for (const StoredRows& rows : partition) {
    const Index others = (n - rows.count()) * layout.kv_heads;
    traffic.received.push_back(others);
    traffic.sent.push_back(others);
    traffic.messages.push_back(Index(partition.size()) - 1);
    traffic.largest = std::max(traffic.largest, rows.count() * layout.kv_heads);
  }
  return traffic;
}

}  // namespace annulus::pattern
