#include "annulus/strategies/statistics_computation.hpp"

#include <algorithm>
#include <utility>

#include "annulus/pattern/head_pairs.hpp"

namespace annulus::strategies {
namespace {

Index list_bytes(const Problem& problem, Index entry_bytes) {
  return problem.shape.heads * problem.statistics.top_keys * entry_bytes;
}

Index precision_bytes(const Problem& problem) { return Index(core::bytes_of(problem.precision)); }

bool weights_stay_in_place(const Problem& problem) { return problem.sum_type() == core::lse_type(problem.type); }

}  // namespace

Index top_rows_bytes(const Problem& problem) { return list_bytes(problem, sizeof(Index)); }

Index top_weights_bytes(const Problem& problem) {
  return list_bytes(problem, Index(core::bytes_of(core::lse_type(problem.type))));
}

StatisticsComputation::StatisticsComputation(const Problem& problem, const RowCounts& own_rows, Tensors& tensors,
                                             core::Count expected, const Progress& progress)
    : SumComputation(problem, own_rows, tensors, expected, progress), tensors_(tensors) {
  const Index all = problem.shape.batch * own_rows.queries;
  core::require(tensors.normalizers.bytes() == all * problem.normalizer_row_bytes(), [&] {
    return fmt::format(
        "the statistics got {} bytes of normalizers; expected {}: forward() makes them only if the problem "
        "asks for statistics",
        tensors.normalizers.bytes(), all * problem.normalizer_row_bytes());
  });
  if (problem.statistics.top_keys == 0) return;
  const core::HeadPairs pairs = pattern::head_pairs(problem.layout());
  head_pairs_ = core::Buffer("work list", Index(pairs.of.size() * sizeof(core::HeadPair)));
  core::copy_to_device(head_pairs_.data(), pairs.of.data(), head_pairs_.bytes());
  top_weights_ = core::Buffer("top weights", all * list_bytes(problem, precision_bytes(problem)));
  top_rows_ = core::Buffer("top rows", all * top_rows_bytes(problem));
  kernels::clear_top(problem.shape, own_rows.queries, problem.precision, lists());
}

kernels::StatisticViews StatisticsComputation::lists() const {
  return {{}, top_weights_.data(), static_cast<Index*>(top_rows_.data()), problem_.statistics.top_keys};
}

void StatisticsComputation::attend(const core::WorkList& list, const KeyBlock& block, const QueryBlock& queries,
                                   const GradientBlock& into, const std::function<void()>& poll) {
  const core::Shape& s = problem_.shape;
  const Tensors& t = queries.tensors;
  const Index rows = queries.held.count();
  const kernels::StatisticOperands operands{
      t.lent.q.data != nullptr ? t.lent.q : view(t.q, problem_.type, rows, s.head_dim),
      block.view(problem_, 0),
      view(t.normalizers, problem_.sum_type(), rows, kernels::normalizer_numbers),
      problem_.scale,
      problem_.slots(),
      problem_.share ? problem_.share->query.begin : 0,
      static_cast<const core::HeadPair*>(head_pairs_.data()),
      Index(problem_.pattern.pairs.size()),
      problem_.call_rule()};
  kernels::StatisticViews statistics = lists();
  statistics.received = into.view(problem_, 0);
  kernels::attend_statistics(problem_.backend, list, s, rows, problem_.precision, operands, statistics, poll);
}

core::Buffer StatisticsComputation::finish(core::HopMetrics& metrics) {
  const Problem& p = problem_;
  if (p.statistics.top_keys > 0) {
    core::timed_compute(metrics, [&] {
      const Index all = p.shape.batch * own_rows_.queries;
      tensors_.top_weights =
          weights_stay_in_place(p) ? top_weights_ : core::Buffer("top weights", all * top_weights_bytes(p));
      kernels::finish_top(p.shape, own_rows_.queries, p.precision, lists(),
                          view(tensors_.normalizers, p.sum_type(), own_rows_.queries, kernels::normalizer_numbers),
                          view(tensors_.top_weights, core::lse_type(p.type), own_rows_.queries, p.statistics.top_keys));
      tensors_.top_rows = std::exchange(top_rows_, {});
      top_weights_ = {};
    });
  }
  return take_own();
}

Index statistics_results(const Problem& problem, const RowCounts& rows) {
  const Index lists = top_rows_bytes(problem) + top_weights_bytes(problem);
  return problem.shape.batch * (rows.keys * problem.shape.heads * Index(sizeof(double)) + rows.queries * lists);
}

Index statistics_inputs(const Problem& problem, const RowCounts& rows) {
  const Index of_queries = problem.query_row_bytes() + problem.output_row_bytes();
  return problem.shape.batch * rows.queries * of_queries + problem.kv_block_bytes(rows.keys);
}

Index statistics_panels(const Problem& problem, Index rows) {
  if (rows == 0) return 0;
  return std::max(kernel_memory(problem, rows),
                  kernels::attend_statistics_bytes(problem.backend, item_shape(problem), rows, problem.slots(),
                                                   Index(problem.pattern.pairs.size()), problem.precision));
}

Index statistics_work(const Problem& problem, const RowCounts& held, Index extra) {
  const Index rows = held.queries, all = problem.shape.batch * rows;
  const Index lists = all * (top_rows_bytes(problem) + list_bytes(problem, precision_bytes(problem)));
  const Index weights = weights_stay_in_place(problem) ? 0 : all * top_weights_bytes(problem);
  const Index pairs = problem.statistics.top_keys == 0
                          ? 0
                          : problem.shape.heads * Index(problem.pattern.pairs.size() * sizeof(core::HeadPair));
  return statistics_panels(problem, rows) + pairs + key_sum_bytes(problem, held.keys) + lists +
         std::max(extra, weights);
}

}  // namespace annulus::strategies
