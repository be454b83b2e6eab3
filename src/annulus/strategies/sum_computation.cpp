#include "annulus/strategies/sum_computation.hpp"

#include <algorithm>
#include <utility>

#include "annulus/comm/watchdog.hpp"

namespace annulus::strategies {

Index GradientBlock::unit_bytes(const Problem& problem) const {
  return (packed ? 1 : problem.shape.kv_heads) * problem.head_row_sum_bytes();
}

core::TensorView GradientBlock::view(const Problem& problem, Index which) const {
  const core::Shape& s = problem.shape;
  const core::DType type = core::type_of(problem.sum_precision());
  if (data == nullptr) return {nullptr, type, 0, 0, 0};
  const Index numbers = problem.sum_numbers();
  const bool joined = problem.sums == Sums::gradients && s.has_value_dim();  // dV of a row follows its dK
  const Index part = joined ? which / 2 : which, before = joined ? which % 2 * s.head_dim : 0;
  auto* start = static_cast<std::byte*>(data) + part * s.batch * held * unit_bytes(problem) +
                before * Index(core::bytes_of(type));
  if (!packed) return core::contiguous_view(start, type, held, s.kv_heads, numbers);
  return {start, type, held * numbers, numbers, 0};
}

kernels::RowArray GradientBlock::head_rows(const Problem& problem) const {
  const Index rows = held * unit_bytes(problem) / problem.head_row_sum_bytes();
  return {data, problem.sum_parts(), rows, problem.head_row_sum_bytes()};
}

SumComputation::SumComputation(const Problem& problem, const RowCounts& own_rows, const Tensors& tensors,
                               core::Count expected, const Progress& progress, bool own)
    : problem_(problem),
      own_rows_(own_rows),
      callers_poll_(tensors.poll),
      progress_(progress),
      sums_("key sums", own ? key_sum_bytes(problem, own_rows.keys) : 0),
      own_{sums_.data(), own_rows.keys, false},
      layout_(problem.layout()),
      expected_(expected) {
  core::fill_zero(sums_.data(), sums_.bytes());
}

void SumComputation::begin(const Problem& round) {
  end_blocks(problem_, own_);
  layout_ = round.layout();
  round_ = round_name(problem_, layout_);
}

core::TensorView SumComputation::view(const core::Buffer& buffer, core::DType type, Index rows, Index numbers) const {
  return core::contiguous_view(buffer.data(), type, rows, problem_.shape.heads, numbers);
}

void SumComputation::add(const KeyBlock& block, const QueryBlock& queries, const GradientBlock& into, core::Band part,
                         const std::string& where, core::HopMetrics& metrics, const std::function<void()>& poll) {
  const std::string scope = round_ + where;
  const comm::Scope doing(scope);
  const std::function<void()> watched_poll = watched(poll, callers_poll_);
  // One list after another, because items of two lists may have a row and head (of queries or keys) in common; items of
  // one list never do.
  for (const core::WorkList& list : pattern::work_lists(layout_, queries.rows, block.rows, part)) {
    if (list.empty()) continue;
    core::timed_compute(metrics, [&] { attend(list, block, queries, into, watched_poll); });
    const core::Count kept = pattern::kept_triples(list) * problem_.shape.batch;
    metrics.kept += kept;
    done_ += kept;
    if (progress_) progress_(double(done_) / double(std::max<core::Count>(1, expected_)), scope);
  }
}

core::Buffer SumComputation::take_own() {
  own_ = {};
  return std::exchange(sums_, {});
}

void end_blocks(const Problem& problem, const GradientBlock& block) {
  if (!problem.has_query_block_sums() || block.data == nullptr || block.held == 0) return;
  kernels::RowArray sums = block.head_rows(problem);
  sums.parts /= 2;
  const Index bytes = sums.parts * sums.held * sums.row_bytes;
  kernels::RowArray begun = sums;
  begun.data = static_cast<std::byte*>(sums.data) + bytes;
  kernels::add_rows({{0, 1, sums.held, 0}}, begun, sums, problem.sum_precision());
  core::fill_zero(begun.data, bytes);
}

Index key_sum_bytes(const Problem& problem, Index rows) {
  return problem.sum_parts() * rows * problem.shape.kv_heads * problem.head_row_sum_bytes();
}

Index gradient_bytes(const Problem& problem, const pattern::PackedRows& packed) {
  return problem.sum_parts() * pattern::head_rows(packed) * problem.head_row_sum_bytes();
}

comm::RowBlock sum_block(const Problem& problem, void* data, Index held, Index unit_bytes) {
  return {data, problem.sum_parts(), held, unit_bytes, {0, held}};
}

}  // namespace annulus::strategies
