#include "annulus/strategies/queries/query_costs.hpp"

#include <algorithm>

#include "annulus/kernels/sink.hpp"
#include "annulus/strategies/backward_computation.hpp"
#include "annulus/strategies/statistics_computation.hpp"

namespace annulus::strategies {
namespace {

Index list_row_bytes(const Problem& problem) { return top_rows_bytes(problem) + top_weights_bytes(problem); }

/// Bytes of a row of m, l or delta. Such a row has one number in the problem's precision for every head.
Index head_number_bytes(const Problem& problem) {
  return problem.shape.heads * Index(core::bytes_of(problem.precision));
}

}  // namespace

Problem with_all_queries(Problem problem) {
  problem.queries = problem.queries.value_or(core::Interval{0, problem.shape.sequence});
  problem.all_queries = true;
  return problem;
}

QueryCosts::QueryCosts(const Problem& problem, bool with_sums, Index ranks)
    : problem_(problem), with_sums_(with_sums), ranks_(ranks) {
  const Index q = problem.query_row_bytes(), number = head_number_bytes(problem);
  if (!with_sums) {  // sent: q; returned: acc, m, l and, for the entropy, score_sum (kernels::State)
    const Index scalars = problem.statistics.entropy ? 3 : 2;
    query_bytes_ = q;
    returned_bytes_ = number * (problem.shape.dim_of_values() + scalars);
    tensors_ = 2 + scalars;
  } else if (problem.sums == Sums::received) {  // sent: q and normalizers; returned: lists
    const bool has_lists = problem.statistics.top_keys > 0;
    query_bytes_ = q + problem.normalizer_row_bytes();
    returned_bytes_ = list_row_bytes(problem);
    tensors_ = 2 + (has_lists ? 2 : 0);
  } else {  // sent: q, dout, normalizers and delta; returned: sums of dq
    query_bytes_ = q + problem.out_row_bytes() + problem.normalizer_row_bytes() + number;
    returned_bytes_ = problem.shape.heads * problem.head_query_sum_bytes();
    tensors_ = 5;
  }
}

Index QueryCosts::memory(const RowCounts& own) const {
  if (!with_sums_) return forward_memory(own);
  return problem_.sums == Sums::received ? statistics_memory(own) : backward_memory(own);
}

Index QueryCosts::forward_memory(const RowCounts& own) const {
  const auto states = [&](Index rows) {
    return kernels::State::bytes(problem_.shape, rows, problem_.precision, problem_.statistics.entropy);
  };
  const Index inputs = batch() * own.queries * problem_.query_row_bytes() + problem_.kv_block_bytes(own.keys);
  const Index queries = batch() * all() * problem_.query_row_bytes();
  const Index out = problem_.is_in_place() ? batch() * own.queries * problem_.out_row_bytes() : 0;
  const Index results = batch() * own.queries * problem_.output_row_bytes() - out;
  const Index sink = problem_.sink ? kernels::add_sink_bytes(problem_.shape.heads) : 0;
  const Index panels = kernel_memory(problem_, all()) + key_parts_bytes(problem_, all(), false);
  return inputs + panels +
         std::max(states(all()) + std::max(queries, states(ranks_ * own.queries)),
                  states(own.queries) + std::max(results, sink));
}

Index QueryCosts::backward_memory(const RowCounts& own) const {
  const Index panels = backward_panels(problem_, all()), keys = key_sum_bytes(problem_, own.keys);
  const Index arrived = batch() * all() * query_bytes_, returned = query_sum_bytes(problem_, ranks_ * own.queries);
  const Index sums = query_sum_bytes(problem_, all());
  // At the end a rank turns its sums into results, as in any other backward pass.
  const Index end = backward_work(problem_, own, 0) - backward_panels(problem_, own.queries);
  return backward_inputs(problem_, own) + panels + std::max(keys + sums + std::max(arrived, returned), end);
}

Index QueryCosts::statistics_memory(const RowCounts& own) const {
  const Index panels = statistics_panels(problem_, all()), keys = key_sum_bytes(problem_, own.keys);
  const Index lists = batch() * list_row_bytes(problem_);
  const Index work = batch() * all() * query_bytes_ + statistics_work(problem_, {all(), own.keys}, 0);
  return statistics_inputs(problem_, own) +
         std::max(work, panels + keys + lists * (ranks_ * own.queries + std::max(all(), own.queries)));
}

}  // namespace annulus::strategies
