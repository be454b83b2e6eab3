#include "annulus/strategies/heads/head_exchange.hpp"

#include <utility>

#include "annulus/strategies/backward_loop.hpp"
#include "annulus/strategies/forward_loop.hpp"
#include "annulus/strategies/heads/head_groups.hpp"

namespace annulus::strategies {

bool splits_groups(const core::Shape& shape, Index ranks) {
  for (Index p = 0; p < ranks; ++p) {
    if (core::even_part(shape.heads, ranks, p).begin % shape.group() != 0) return true;
  }
  return false;
}

Prediction predict_heads(const ForwardPass& across, const Problem& problem, const pattern::Partition& partition,
                         int size, int rank) {
  const HeadGroup group(problem, partition, size, rank);
  Prediction prediction = across.predict(group.narrow(), group.rows(), group.number());
  prediction.memory_bytes = group.memory(prediction.memory_bytes);
  prediction.bytes_sent += group.bytes_sent();
  prediction.bytes_received += group.bytes_received();
  return prediction;
}

core::RankMetrics run_heads(const ForwardPass& across, const Problem& problem, const pattern::Partition& partition,
                            int size, const comm::Communicator& comm, Tensors& tensors, const Progress& progress) {
  const HeadGroup group(problem, partition, size, comm.rank());
  const comm::Communicator inside = comm.split(group.number()), between = comm.split(group.place());
  core::HopMetrics exchanged;
  Tensors narrow;
  core::timed_wait(exchanged, [&] { narrow = group.take_heads(inside, tensors); });
  core::RankMetrics metrics = run_forward(across, group.narrow(), group.rows(), between, narrow, progress);
  narrow.q = {};
  narrow.kv = {};
  core::timed_wait(exchanged, [&] { group.return_heads(inside, narrow, tensors); });
  metrics.rows = partition[std::size_t(comm.rank())].count();
  core::HopMetrics& first = metrics.hops.front();  // both exchanges are counted there
  first.wait_seconds += exchanged.wait_seconds;
  first.bytes_sent += group.bytes_sent();
  first.bytes_received += group.bytes_received();
  first.rows_received += group.rows_received();
  return metrics;
}

Prediction predict_heads(const BackwardPass& across, const Problem& problem, const pattern::Partition& partition,
                         int size, int rank) {
  const HeadGroup group(problem, partition, size, rank);
  Prediction prediction = across.predict(group.narrow(), group.rows(), group.number());
  prediction.memory_bytes = group.backward_memory(prediction.memory_bytes);
  prediction.bytes_sent += group.backward_bytes_sent();
  prediction.bytes_received += group.backward_bytes_received();
  return prediction;
}

namespace {

HeadGroup::BackwardInputs take_inputs(const HeadGroup& group, const comm::Communicator& inside, const Problem& problem,
                                      Index own_rows, const Tensors& tensors, core::HopMetrics& metrics) {
  const core::Buffer delta = make_delta(problem, own_rows, tensors);
  HeadGroup::BackwardInputs narrow;
  core::timed_wait(metrics, [&] { narrow = group.take_backward_heads(inside, tensors, delta); });
  return narrow;
}

/// Makes narrow.tensors.dq and returns the sums for the group's K/V rows; frees what only the kernel reads.
core::Buffer compute(const BackwardPass& across, const HeadGroup& group, const comm::Communicator& between,
                     HeadGroup::BackwardInputs& narrow, const Progress& progress, core::RankMetrics& metrics) {
  const pattern::StoredRows& rows = group.rows()[std::size_t(group.number())];
  BackwardComputation computation(group.narrow(), rows, narrow.tensors, std::exchange(narrow.delta, {}),
                                  kept_of(group.narrow(), rows), progress);
  core::Buffer sums;
  run_backward(across, {group.narrow(), group.rows(), between, narrow.tensors, metrics}, computation,
               [&] { sums = computation.finish_queries(metrics.hops.back()); });
  narrow.tensors.q = narrow.tensors.kv = narrow.tensors.dout = narrow.tensors.normalizers = {};
  return sums;
}

}  // namespace

core::RankMetrics run_heads(const BackwardPass& across, const Problem& problem, const pattern::Partition& partition,
                            int size, const comm::Communicator& comm, Tensors& tensors, const Progress& progress) {
  const Index own_rows = partition[std::size_t(comm.rank())].count();
  const HeadGroup group(problem, partition, size, comm.rank());
  const comm::Communicator inside = comm.split(group.number()), between = comm.split(group.place());
  core::RankMetrics metrics{own_rows, {{}}};
  core::HopMetrics exchanged;
  HeadGroup::BackwardInputs narrow = take_inputs(group, inside, problem, own_rows, tensors, exchanged);
  core::Buffer sums = compute(across, group, between, narrow, progress, metrics);
  core::timed_wait(exchanged, [&] {
    group.return_query_gradients(inside, narrow.tensors, tensors);
    narrow = {};
    sums = group.return_key_sums(inside, std::move(sums));
  });

  core::HopMetrics& first = metrics.hops.front();  // both exchanges are counted there
  first.wait_seconds += exchanged.wait_seconds;
  first.bytes_sent += group.backward_bytes_sent();
  first.bytes_received += group.backward_bytes_received();
  first.rows_received += group.rows_received();
  tensors.dkv = finish_keys(problem, own_rows, std::move(sums), first);
  return metrics;
}

}  // namespace annulus::strategies
