#include "annulus/strategies/passes.hpp"

#include <algorithm>

#include "annulus/comm/window_room.hpp"
#include "annulus/strategies/backward_loop.hpp"
#include "annulus/strategies/forward_loop.hpp"
#include "annulus/strategies/heads/head_exchange.hpp"
#include "annulus/strategies/queries/query_exchange.hpp"
#include "annulus/strategies/statistics_computation.hpp"

namespace annulus::strategies {

void check_ranks(const Schedule& forward, const Schedule* backward, const comm::Communicator& comm) {
  if (forward.has_exchange()) return;  // plans of such a schedule (a ring, own keys) have no MPI windows
  const Index keys = forward.keys().window_bytes(comm.rank());
  const Index sums = backward != nullptr
                         ? backward->keys().window_bytes(comm.rank()) + backward->sums()->window_bytes(comm.rank())
                         : 0;
  if (comm.max(keys + sums) > 0) comm::require_window_room(comm, std::max(keys, sums));
}

core::RankMetrics run_forward_pass(const Schedule& schedule, const Location& location, Tensors& tensors,
                                   const Progress& progress) {
  if (schedule.has_groups()) return run_forward_heads(schedule, location.comm(), tensors, progress);
  if (schedule.gathers_queries()) return run_forward_queries(schedule, location.comm(), tensors, progress);
  return run_forward(schedule, location, tensors, progress);
}

namespace {

core::RankMetrics run_backward_rows(const Schedule& schedule, const Location& location, Tensors& tensors,
                                    const Progress& progress) {
  const Problem& problem = schedule.problem();
  const RowCounts rows = schedule.row_counts(location.rank());
  core::RankMetrics metrics{rows.keys, {{}}};
  const core::Count expected = kept_of(problem, schedule.query_rows()[std::size_t(location.rank())]);
  const Wanted wanted = schedule.sums()->wanted();
  const auto work_on = [&](const Problem& part, Tensors& its_tensors, const Progress& its_progress) {
    BackwardComputation computation(part, rows, its_tensors, expected, its_progress, wanted);
    run_backward(schedule, {part, schedule.partition(), location, its_tensors, metrics}, computation,
                 [&] { computation.finish(metrics.hops.back()); });
  };
  tensors.delta = make_delta(problem, rows.queries, tensors);
  if (wanted != Wanted::of_keys) make_sink_sums(problem, rows.queries, tensors);
  const Index blocks = schedule.backward_blocks(rows);
  if (blocks == 1) {
    if (!schedule.sums()->is_own()) tensors.dk = tensors.dv = {};
    work_on(problem, tensors, progress);
  }
  const pattern::StoredRows& own = schedule.partition()[std::size_t(location.rank())];
  for (Index i = 0; blocks > 1 && i < blocks; ++i) {
    const core::Interval entries = core::even_part(problem.shape.batch, blocks, i);
    Problem part = problem;
    part.shape.batch = entries.size();
    part.whole_batch = problem.shape.batch;
    Tensors its_tensors = entries_of(problem, rows.queries, own, tensors, entries);
    const double before = double(metrics.total().kept) / double(std::max<core::Count>(1, expected));
    const Progress of_block = [&](double share, const std::string& where) { progress(before + share, where); };
    work_on(part, its_tensors, progress ? of_block : progress);
  }
  tensors.delta = {};
  if (tensors.dkv.bytes() > 0) tensors.dk = tensors.dv = {};
  return metrics;
}

}  // namespace

core::RankMetrics run_backward_pass(const Schedule& schedule, const Location& location, Tensors& tensors,
                                    const Progress& progress) {
  core::RankMetrics metrics = schedule.has_groups() ? run_backward_heads(schedule, location.comm(), tensors, progress)
                              : schedule.gathers_queries()
                                  ? run_backward_queries(schedule, location.comm(), tensors, progress)
                                  : run_backward_rows(schedule, location, tensors, progress);
  if (location.has_ranks() && schedule.problem().sink) location.comm().add_up(tensors.sink_sums);
  return metrics;
}

core::RankMetrics run_statistics_pass(const Schedule& schedule, const Location& location, Tensors& tensors,
                                      const Progress& progress) {
  if (schedule.has_groups()) return run_statistics_heads(schedule, location.comm(), tensors, progress);
  if (schedule.gathers_queries()) return run_statistics_queries(schedule, location.comm(), tensors, progress);
  const Problem& problem = schedule.problem();
  const pattern::StoredRows& queries = schedule.query_rows()[std::size_t(location.rank())];
  const RowCounts rows = schedule.row_counts(location.rank());
  core::RankMetrics metrics{rows.keys, {{}}};
  StatisticsComputation computation(problem, rows, tensors, kept_of(problem, queries), progress);
  // The query heads of a K/V head follow one another, so an array (B, rows, Hkv, slots) is also an array (B, rows, H).
  run_backward(schedule, {problem, schedule.partition(), location, tensors, metrics}, computation,
               [&] { tensors.received = computation.finish(metrics.hops.back()); });
  return metrics;
}

}  // namespace annulus::strategies
