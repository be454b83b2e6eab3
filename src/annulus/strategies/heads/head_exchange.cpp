#include "annulus/strategies/heads/head_exchange.hpp"

#include <utility>

#include "annulus/strategies/backward_loop.hpp"
#include "annulus/strategies/forward_loop.hpp"
#include "annulus/strategies/statistics_computation.hpp"

namespace annulus::strategies {

bool splits_groups(const core::Shape& shape, Index ranks) {
  for (Index p = 0; p < ranks; ++p) {
    if (core::even_part(shape.heads, ranks, p).begin % shape.group() != 0) return true;
  }
  return false;
}

namespace {

/// This rank as a member of its group. It exchanges messages with the ranks of its group (`inside`), and with the ranks
/// that have the same number in other groups (`between`).
struct Member {
  Member(const Schedule& schedule, const comm::Communicator& comm)
      : group(schedule.group_of(comm.rank())),
        across(schedule.across(comm.rank())),
        inside(comm.split(group.number())),
        between(comm.split(group.rank())) {}

  /// Adds the cost of both exchanges (before and after the pass) to the metrics of the first hop.
  void count(const core::HopMetrics& exchanged, Index sent, Index received, core::HopMetrics& first) const {
    first.wait_seconds += exchanged.wait_seconds;
    first.bytes_sent += sent;
    first.bytes_received += received;
    first.rows_received += group.rows_received();
  }

  const HeadGroup group;
  const Schedule& across;
  const comm::Communicator inside, between;
};

/// Makes narrow.dq, frees the tensors that only the kernel reads, and returns the sums for the group's K/V rows.
core::Buffer compute(const Member& member, Tensors& narrow, const Progress& progress, core::RankMetrics& metrics) {
  const Problem& problem = member.across.problem();
  const pattern::StoredRows& queries = member.across.query_rows()[std::size_t(member.group.number())];
  const RowCounts rows = member.across.row_counts(member.group.number());
  BackwardComputation computation(problem, rows, narrow, kept_of(problem, queries), progress);
  core::Buffer sums;
  run_backward(member.across, {problem, member.across.partition(), member.between, narrow, metrics}, computation,
               [&] { sums = computation.finish_queries(metrics.hops.back()); });
  narrow.q = narrow.kv = narrow.dout = narrow.normalizers = {};
  return sums;
}

}  // namespace

core::RankMetrics run_forward_heads(const Schedule& schedule, const comm::Communicator& comm, Tensors& tensors,
                                    const Progress& progress) {
  const Member member(schedule, comm);
  core::HopMetrics exchanged;
  Tensors narrow;
  core::timed_wait(exchanged, "all-to-all", [&] { narrow = member.group.take_heads(member.inside, tensors); });
  core::RankMetrics metrics = run_forward(member.across, member.between, narrow, progress);
  narrow.q = {};
  narrow.kv = {};
  core::timed_wait(exchanged, "all-to-all", [&] { member.group.return_heads(member.inside, narrow, tensors); });
  metrics.rows = schedule.partition()[std::size_t(comm.rank())].count();
  member.count(exchanged, member.group.bytes_sent(), member.group.bytes_received(), metrics.hops.front());
  return metrics;
}

core::RankMetrics run_backward_heads(const Schedule& schedule, const comm::Communicator& comm, Tensors& tensors,
                                     const Progress& progress) {
  const Problem& problem = schedule.problem();
  const RowCounts own_rows = schedule.row_counts(comm.rank());
  const Member member(schedule, comm);
  core::RankMetrics metrics{own_rows.keys, {{}}};
  core::HopMetrics exchanged;
  tensors.delta = make_delta(problem, own_rows.queries, tensors);
  make_sink_sums(problem, own_rows.queries, tensors);
  Tensors narrow;
  core::timed_wait(exchanged, "all-to-all", [&] { narrow = member.group.take_backward_heads(member.inside, tensors); });
  tensors.delta = {};
  core::Buffer sums = compute(member, narrow, progress, metrics);
  core::timed_wait(exchanged, "all-to-all", [&] {
    member.group.return_query_gradients(member.inside, narrow, tensors);
    narrow = {};
    sums = member.group.return_key_sums(member.inside, std::move(sums));
  });
  core::HopMetrics& first = metrics.hops.front();
  member.count(exchanged, member.group.backward_bytes_sent(), member.group.backward_bytes_received(), first);
  tensors.dkv = finish_keys(problem, own_rows.keys, std::move(sums), first);
  return metrics;
}

core::RankMetrics run_statistics_heads(const Schedule& schedule, const comm::Communicator& comm, Tensors& tensors,
                                       const Progress& progress) {
  const Member member(schedule, comm);
  core::RankMetrics metrics{schedule.partition()[std::size_t(comm.rank())].count(), {{}}};
  core::HopMetrics exchanged;
  Tensors narrow;
  core::timed_wait(exchanged, "all-to-all",
                   [&] { narrow = member.group.take_statistics_heads(member.inside, tensors); });
  const Problem& problem = member.across.problem();
  const pattern::StoredRows& queries = member.across.query_rows()[std::size_t(member.group.number())];
  const RowCounts rows = member.across.row_counts(member.group.number());
  StatisticsComputation computation(problem, rows, narrow, kept_of(problem, queries), progress);
  core::Buffer sums;
  run_backward(member.across, {problem, member.across.partition(), member.between, narrow, metrics}, computation,
               [&] { sums = computation.finish(metrics.hops.back()); });
  narrow.q = narrow.kv = narrow.normalizers = {};
  core::timed_wait(exchanged, "all-to-all", [&] {
    member.group.return_lists(member.inside, narrow, tensors);
    tensors.received = member.group.return_key_sums(member.inside, std::move(sums));
  });
  member.count(exchanged, member.group.backward_bytes_sent(), member.group.backward_bytes_received(),
               metrics.hops.front());
  return metrics;
}

}  // namespace annulus::strategies
