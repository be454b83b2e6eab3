#include "annulus/planner/load_sums.hpp"

namespace annulus::planner {

void add_traffic(const pattern::Traffic& traffic, double bytes, Loads& loads) {
  add(loads.received, traffic.received, bytes);
  add(loads.sent, traffic.sent, bytes);
  add(loads.messages, traffic.messages, 1.0);
}

void add_gathered_keys(const Problem& problem, const pattern::Partition& partition, Loads& loads) {
  const double n = double(problem.shape.sequence), heads = double(problem.shape.kv_heads);
  const double others = double(partition.size() - 1);
  for (const pattern::StoredRows& rows : partition) {
    const double own = double(rows.count());
    loads.received.push_back(kv_bytes(problem, (n - own) * heads));
    loads.sent.push_back(others * kv_bytes(problem, own * heads));
    loads.messages.push_back(others);
  }
}

void add_overheads(const CommunicationShape& shape, const Problem& problem, const pattern::Partition& partition,
                   int kinds, Loads& loads) {
  const bool at_once = shape.movement == Movement::none || (shape.movement == Movement::gather && !shape.overlapped);
  const double pairs = double(problem.pattern.pairs.size());
  for (std::size_t p = 0; p < partition.size(); ++p) {
    const double blocks = shape.movement == Movement::none && kinds == 1
                              ? double(strategies::query_blocks(problem, partition[p].count()))
                              : 1;
    const double received = at_once ? 0 : loads.messages[p] / kinds;
    loads.calls.push_back(partition[p].count() > 0 ? pairs * (blocks + received) : 0);
  }
  const bool heads = shape.movement == Movement::heads || shape.movement == Movement::heads_in_ring;
  double each = 0;  // rows of one head that pairs pick of a row
  for (const pattern::Pair& pair : problem.pattern.pairs) each += double(problem.shape.heads) / double(pair.dilation);
  if (problem.pattern.semantics == pattern::Semantics::grouped) each /= pairs;
  for (const pattern::StoredRows& rows : partition) {
    loads.rows.push_back((kinds == 1 ? 1 : backward_work_factor) * double(problem.shape.batch * rows.count()) * each);
  }
  if (shape.movement == Movement::window) loads.windows = kinds;
  if (heads) loads.communicators = 2;
}

std::optional<Loads> enumerated(int ranks, double work, double messages,
                                const std::function<Prediction(int rank)>& predict) {
  if (ranks > largest_enumerated) return std::nullopt;
  Loads loads;
  for (int p = 0; p < ranks; ++p) {
    const Prediction one = predict(p);
    loads.kept.push_back(work * double(one.kept));
    loads.sent.push_back(double(one.bytes_sent));
    loads.received.push_back(double(one.bytes_received));
    loads.messages.push_back(messages * double(ranks - 1));
    loads.memory = std::max(loads.memory, double(one.memory_bytes));
  }
  return loads;
}

}  // namespace annulus::planner
