#include "annulus/strategies/computation.hpp"

#include <algorithm>
#include <utility>

#include "annulus/comm/watchdog.hpp"

namespace annulus::strategies {

comm::RowBlock kv_block(const Problem& problem, void* data, Index held, Index unit_bytes) {
  return {data, 2 * problem.shape.batch, held, unit_bytes, {0, held}};
}

Index KeyBlock::unit_bytes(const Problem& problem) const {
  return rows.is_packed() ? problem.head_row_bytes() : problem.kv_row_bytes();
}

core::TensorView KeyBlock::view(const Problem& problem, Index which) const {
  const core::Shape& s = problem.shape;
  auto* start = static_cast<std::byte*>(data) + which * s.batch * held * unit_bytes(problem);
  if (!rows.is_packed()) return core::contiguous_view(start, problem.type, held, s.kv_heads, s.head_dim);
  return {start, problem.type, held * s.head_dim, s.head_dim, 0};  // a stored row already is one head's
}

KeyBlock own_block(const Tensors& tensors, const pattern::StoredRows& rows) {
  return {tensors.kv.data(), rows.count(), pattern::KeyRows::raw(rows)};
}

Computation::Computation(const Problem& problem, const pattern::StoredRows& queries, Tensors& tensors, Index expected,
                         const Progress& progress)
    : problem_(problem),
      queries_(queries),
      tensors_(tensors),
      progress_(progress),
      state_(empty_states(accumulator())),
      layout_(problem.layout()),
      expected_(expected) {}

void Computation::begin(const Problem& pass, core::HopMetrics& metrics) {
  layout_ = pass.layout();
  const core::Interval pairs = layout_.used_pairs();
  const Index all = Index(problem_.pattern.pairs.size());
  pass_ = pairs.size() < all ? fmt::format("pair {} of {}, ", pairs.end, all) : "";
  if (pairs.begin == 0) return;
  const double start = core::wall_seconds(), cpu = core::cpu_seconds();
  merge();
  if (of_pass_) {
    of_pass_->clear();
  } else {
    of_pass_.emplace(empty_states(core::Buffer("state", state_.acc.bytes())));
  }
  metrics.kernel_cpu_seconds += core::cpu_seconds() - cpu;
  metrics.compute_seconds += core::wall_seconds() - start;
}

core::Buffer Computation::accumulator() {
  const Index bytes = kernels::State::acc_bytes(problem_.shape, queries_.count(), problem_.precision);
  if (!problem_.is_in_place()) return {"state", bytes};
  return tensors_.out = core::Buffer("out", bytes);
}

kernels::State Computation::empty_states(core::Buffer acc) const {
  const int lift = problem_.reproducible ? kernels::reproducible_lift : 0;
  return {problem_.shape, queries_.count(), problem_.precision, lift, std::move(acc)};
}

void Computation::merge() {
  if (of_pass_) kernels::merge_states(problem_.backend, *of_pass_, state_);
}

void Computation::add_all(const KeyBlock& block, const std::string& place, core::HopMetrics& metrics) {
  for (const Problem& pass : passes(problem_)) {
    begin(pass, metrics);
    add(block, pass.first_part(), place, metrics);
    if (pass.has_last_part()) add(block, core::Mask::after, place, metrics);
  }
}

void Computation::add(const KeyBlock& block, core::Mask part, const std::string& where, core::HopMetrics& metrics,
                      const std::function<void()>& poll) {
  const std::string place = pass_ + where;
  const core::Shape& s = problem_.shape;
  const kernels::Operands operands{
      core::contiguous_view(tensors_.q.data(), problem_.type, queries_.count(), s.heads, s.head_dim),
      block.view(problem_, 0), block.view(problem_, 1), problem_.scale};
  const comm::Place here(place);
  const std::function<void()> poll_and_tell = watched(poll);
  const double start = core::wall_seconds();
  // One pair after another: inside a pair no two items share a query row and head, across pairs they may.
  for (const core::WorkList& list : pattern::work_lists(layout_, queries_, block.rows, part)) {
    if (list.empty()) continue;
    const double cpu = core::cpu_seconds();
    kernels::attend(problem_.backend, list, operands, of_pass_ ? *of_pass_ : state_, poll_and_tell);
    metrics.kernel_cpu_seconds += core::cpu_seconds() - cpu;
    const Index kept = pattern::kept_triples({list}) * s.batch;
    metrics.kept += kept;
    done_ += kept;
    if (progress_) progress_(double(done_) / double(std::max<Index>(1, expected_)), place);
  }
  metrics.compute_seconds += core::wall_seconds() - start;
}

void Computation::finish(core::HopMetrics& metrics) {
  const core::Shape& s = problem_.shape;
  const Index rows = queries_.count();
  const double start = core::wall_seconds(), cpu = core::cpu_seconds();
  merge();
  of_pass_.reset();
  if (!problem_.is_in_place()) tensors_.out = core::Buffer("out", s.batch * rows * problem_.query_row_bytes());
  tensors_.lse = core::Buffer("lse", s.batch * rows * problem_.lse_row_bytes());
  const bool scaled = problem_.pattern.group_scale;
  kernels::finish(problem_.backend, state_,
                  core::contiguous_view(tensors_.out.data(), problem_.type, rows, s.heads, s.head_dim),
                  core::contiguous_view(tensors_.lse.data(), core::lse_type(problem_.type), rows, s.heads, 1),
                  scaled ? 1.0 / double(problem_.pattern.pairs.size()) : 1.0);
  state_ = kernels::State({}, 0, problem_.precision);
  metrics.kernel_cpu_seconds += core::cpu_seconds() - cpu;
  metrics.compute_seconds += core::wall_seconds() - start;
}

std::function<void()> watched(const std::function<void()>& poll) {
  if (!poll && !comm::is_watched()) return {};
  return [poll] {
    comm::watchdog_progress();
    if (poll) poll();
  };
}

core::Shape item_shape(const Problem& problem) {
  const core::Shape& s = problem.shape;
  return {s.batch, s.sequence, std::min(s.heads, problem.layout().group()), 1, s.head_dim};
}

Index kernel_memory(const Problem& problem, Index rows) {
  return kernels::attend_bytes(problem.backend, item_shape(problem), rows, problem.precision);
}

Index local_memory(const Problem& problem, Index rows, Index extra) {
  const Index b = problem.shape.batch;
  const Index inputs = b * rows * (problem.query_row_bytes() + 2 * problem.kv_row_bytes());
  // In place, out is the states' accumulator.
  const Index outputs = b * rows * ((problem.is_in_place() ? 0 : problem.query_row_bytes()) + problem.lse_row_bytes());
  const Index state = kernels::State::bytes(problem.shape, rows, problem.precision);
  const Index of_pass = passes(problem).size() > 1 ? state : 0;
  return inputs + state + kernel_memory(problem, rows) + std::max(of_pass + extra, outputs);
}

Index kept_between(const Problem& problem, const pattern::StoredRows& queries, const pattern::KeyRows& keys) {
  return pattern::kept_triples(pattern::work_lists(problem.layout(), queries, keys)) * problem.shape.batch;
}

}  // namespace annulus::strategies
