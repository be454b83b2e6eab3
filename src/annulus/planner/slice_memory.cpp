#include "annulus/planner/slice_memory.hpp"

#include <algorithm>

#include "annulus/comm/activity.hpp"
#include "annulus/core/error.hpp"

namespace annulus::planner {
namespace {

/// Return the bytes that a rank reads for a slice: late_inputs() for dout and dlse, all_inputs() for all tensors.
double late_inputs(const Problem& slice, strategies::RowCounts rows) {
  if (!slice.gradients) return 0;
  return double(slice.shape.batch) * double(rows.queries) * double(slice.out_row_bytes() + slice.lse_row_bytes());
}
double all_inputs(const Problem& slice, strategies::RowCounts rows) {
  const double of_queries = double(slice.shape.batch) * double(rows.queries) * double(slice.query_row_bytes());
  return of_queries + double(slice.kv_block_bytes(rows.keys)) + late_inputs(slice, rows);
}

/// Returns the memory that a rank needs for a slice. `before_backward`: peak bytes of the passes before the backward
/// pass; `backward`: peak bytes of the backward pass.
SliceMemory memory_of(const Problem& slice, strategies::RowCounts rows, double before_backward, double backward) {
  return {std::max(before_backward, backward),
          std::max(before_backward + late_inputs(slice, rows), backward) + all_inputs(slice, rows)};
}

/// Raises `most`, if necessary, to the memory that any rank needs for this slice.
void add_ranks(const Strategy& strategy, const Problem& slice, const pattern::Partition& partition, SliceMemory& most) {
  const auto forward = strategy.forward_schedule(slice, partition);
  const auto statistics = slice.statistics.need_pass() ? strategy.statistics_schedule(slice, partition) : nullptr;
  const auto backward = slice.gradients ? strategy.backward_schedule(slice, partition) : nullptr;
  const auto bytes = [](const auto& schedule, int rank) {
    return schedule ? double(schedule->predict(rank).memory_bytes) : 0;
  };
  for (std::size_t p = 0; p < partition.size(); ++p) {
    const int rank = int(p);
    const SliceMemory one = memory_of(slice, forward->row_counts(rank),
                                      std::max(bytes(forward, rank), bytes(statistics, rank)), bytes(backward, rank));
    most = {std::max(most.alone, one.alone), std::max(most.ahead, one.ahead)};
  }
}

/// Makes a slice represent the slices of all batch entries. If the entries have different keys, the keys of the slice
/// are the rows from the first to the last key of any entry.
Problem of_all_entries(Problem slice, const Problem& whole) {
  if (whole.has_own_keys()) slice.key_ranges = {whole.existing_keys()};
  return slice;
}

}  // namespace

SliceMemory slice_memory(const Strategy& strategy, const Problem& problem, const pattern::Partition& partition,
                         const strategies::SliceSize& size, const core::Machine& machine) {
  const core::Shape& s = problem.shape;
  if (Index(partition.size()) > largest_enumerated) {
    const Problem slice = of_all_entries(largest_slice(problem, size), problem);
    const std::optional<Cost> cost = predict(strategy, slice, partition, machine);
    core::require(cost.has_value(), [&] { return fmt::format("the cost of {} is not known", strategy.name()); });
    const strategies::RowCounts rows{most_rows(query_rows(slice, partition)), most_rows(partition)};
    return memory_of(slice, rows, cost->memory_bytes, cost->memory_bytes);
  }
  SliceMemory most;
  const Index of_entry = core::ceil_div(s.kv_heads, size.kv_heads);  // slices of one batch entry
  for (Index i = 0; i < of_entry; ++i) {
    add_ranks(strategy, of_all_entries(narrowed(problem, strategies::slice_of(s, size, i)), problem), partition, most);
    comm::watchdog_progress();  // other ranks may be waiting for this rank
  }
  return most;
}

}  // namespace annulus::planner
