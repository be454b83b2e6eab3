#include "annulus/planner/rank_counts.hpp"

namespace annulus::planner {

void add_traffic(const pattern::Traffic& traffic, double bytes, RankCounts& counts) {
  add(counts.received, traffic.received, bytes);
  add(counts.sent, traffic.sent, bytes);
  add(counts.messages, traffic.messages, 1.0);
}

void add_gathered_keys(const Problem& problem, const pattern::Partition& partition, RankCounts& counts) {
  const double n = double(problem.shape.sequence), heads = double(problem.shape.kv_heads);
  const double others = double(partition.size() - 1);
  for (const pattern::StoredRows& rows : partition) {
    const double own = double(rows.count());
    counts.received.push_back(kv_bytes(problem, (n - own) * heads));
    counts.sent.push_back(others * kv_bytes(problem, own * heads));
    counts.messages.push_back(others);
  }
}

void add_overheads(const CommunicationShape& shape, const Problem& problem, const pattern::Partition& partition,
                   int kinds, RankCounts& counts) {
  const bool at_once = shape.pattern == CommunicationPattern::none ||
                       (shape.pattern == CommunicationPattern::gather && !shape.overlapped);
  const double pairs = double(problem.pattern.pairs.size());
  for (std::size_t p = 0; p < partition.size(); ++p) {
    const double blocks = shape.pattern == CommunicationPattern::none && kinds == 1
                              ? double(strategies::query_blocks(problem, partition[p].count()))
                              : 1;
    const double received = at_once ? 0 : counts.messages[p] / kinds;
    counts.calls.push_back(partition[p].count() > 0 ? pairs * (blocks + received) : 0);
  }
  const bool heads =
      shape.pattern == CommunicationPattern::heads || shape.pattern == CommunicationPattern::heads_in_ring;
  double each = 0;  // rows of one head that pairs pick of a row
  for (const pattern::Pair& pair : problem.pattern.pairs) each += double(problem.shape.heads) / double(pair.dilation);
  if (problem.pattern.semantics == pattern::Semantics::grouped) each /= pairs;
  for (const pattern::StoredRows& rows : partition) {
    counts.rows.push_back((kinds == 1 ? 1 : backward_work_factor) * double(problem.shape.batch * rows.count()) * each);
  }
  if (shape.pattern == CommunicationPattern::window) counts.windows = kinds;
  if (heads) counts.communicators = 2;
}

std::optional<RankCounts> enumerated(int ranks, double work, double messages,
                                     const std::function<Prediction(int rank)>& predict) {
  if (ranks > largest_enumerated) return std::nullopt;
  RankCounts counts;
  for (int p = 0; p < ranks; ++p) {
    const Prediction one = predict(p);
    counts.kept.push_back(work * double(one.kept));
    counts.sent.push_back(double(one.bytes_sent));
    counts.received.push_back(double(one.bytes_received));
    counts.messages.push_back(messages * double(ranks - 1));
    counts.memory = std::max(counts.memory, double(one.memory_bytes));
  }
  return counts;
}

}  // namespace annulus::planner
