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
