// Computes what keys receive, and the largest probabilities of the rank's queries (kernels/statistics.hpp).
#pragma once

#include "annulus/kernels/statistics.hpp"
#include "annulus/strategies/sum_computation.hpp"

namespace annulus::strategies {

class StatisticsComputation final : public SumComputation {
 public:
  /// `own_rows`: this rank's numbers of rows. Reads tensors.q and tensors.normalizers.
  StatisticsComputation(const Problem& problem, const RowCounts& own_rows, Tensors& tensors, core::Count expected,
                        const Progress& progress);

  /// Makes tensors.top_rows and top_weights, if the problem asks for them. Returns what the own key rows received:
  /// (B, rows, Hkv, Problem::slots()).
  core::Buffer finish(core::HopMetrics& metrics);

 private:
  void attend(const core::WorkList& list, const KeyBlock& block, const QueryBlock& queries, const GradientBlock& into,
              const std::function<void()>& poll) override;
  kernels::StatisticViews lists() const;

  Tensors& tensors_;
  core::Buffer head_pairs_;
  core::Buffer top_weights_;  // in the problem's precision
  core::Buffer top_rows_;
};

/// Bytes of one row of each of the two lists, of all heads and one batch entry.
Index top_rows_bytes(const Problem& problem);
Index top_weights_bytes(const Problem& problem);

/// Bytes of the panels (packed rows and their sums) that the kernels keep after the forward pass and this pass have
/// computed `rows` rows.
Index statistics_panels(const Problem& problem, Index rows);
/// Bytes of what the pass makes.
Index statistics_results(const Problem& problem, const RowCounts& rows);
/// Bytes of what the pass reads: q, kv, and what forward() made.
Index statistics_inputs(const Problem& problem, const RowCounts& rows);
/// Peak bytes of a statistics pass without its inputs: sums, lists, the kernels' panels and `extra` bytes of buffers.
Index statistics_work(const Problem& problem, const RowCounts& rows, Index extra);

}  // namespace annulus::strategies
