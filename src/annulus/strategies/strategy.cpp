#include "annulus/strategies/strategy.hpp"

#include "annulus/strategies/backward_loop.hpp"
#include "annulus/strategies/forward_loop.hpp"
#include "annulus/strategies/heads/head_exchange.hpp"

namespace annulus::strategies {

CommunicationShape Strategy::communication(const Problem& problem, int ranks) const {
  if (entry_.group_size == nullptr) return entry_.communication;
  const int group = entry_.group_size(problem, ranks);
  return {group == ranks ? Movement::heads : Movement::heads_in_ring, group < ranks, group};
}

Prediction Strategy::predict(const Problem& problem, const pattern::Partition& partition, int rank) const {
  if (entry_.group_size == nullptr) return entry_.forward.predict(problem, partition, rank);
  return predict_heads(entry_.forward, problem, partition, entry_.group_size(problem, int(partition.size())), rank);
}

core::RankMetrics Strategy::forward(const Problem& problem, const pattern::Partition& partition,
                                    const comm::Communicator& comm, Tensors& tensors, const Progress& progress) const {
  if (entry_.group_size == nullptr) return run_forward(entry_.forward, problem, partition, comm, tensors, progress);
  return run_heads(entry_.forward, problem, partition, entry_.group_size(problem, comm.size()), comm, tensors,
                   progress);
}

Prediction Strategy::predict_backward(const Problem& problem, const pattern::Partition& partition, int rank) const {
  const BackwardPass& pass = backward_pass(problem);
  if (entry_.group_size != nullptr) {
    return predict_heads(pass, problem, partition, entry_.group_size(problem, int(partition.size())), rank);
  }
  Prediction prediction = pass.predict(problem, partition, rank);
  prediction.memory_bytes += backward_inputs(problem, partition[std::size_t(rank)].count());
  return prediction;
}

core::RankMetrics Strategy::backward(const Problem& problem, const pattern::Partition& partition,
                                     const comm::Communicator& comm, Tensors& tensors, const Progress& progress) const {
  const BackwardPass& pass = backward_pass(problem);
  if (entry_.group_size != nullptr) {
    return run_heads(pass, problem, partition, entry_.group_size(problem, comm.size()), comm, tensors, progress);
  }
  const pattern::StoredRows& rows = partition[std::size_t(comm.rank())];
  core::RankMetrics metrics{rows.count(), {{}}};
  BackwardComputation computation(problem, rows, tensors, make_delta(problem, rows.count(), tensors),
                                  kept_of(problem, rows), progress);
  run_backward(pass, {problem, partition, comm, tensors, metrics}, computation,
               [&] { computation.finish(metrics.hops.back()); });
  return metrics;
}

}  // namespace annulus::strategies
