#include "annulus/strategies/computation.hpp"

#include <algorithm>
#include <utility>

#include "annulus/comm/watchdog.hpp"
#include "annulus/kernels/backend_description.hpp"
#include "annulus/kernels/filled_keys.hpp"
#include "annulus/kernels/merge.hpp"
#include "annulus/kernels/sink.hpp"
#include "annulus/pattern/counts.hpp"
#include "annulus/pattern/filled_keys.hpp"

namespace annulus::strategies {
namespace {

core::Shape with_entries(core::Shape shape, Index entries) {
  shape.batch = entries;
  return shape;
}

Index state_bytes(const Problem& problem, Index entries, Index rows) {
  return kernels::State::bytes(with_entries(problem.shape, entries), rows, problem.precision,
                               problem.statistics.entropy);
}

Index input_bytes(const Problem& problem, const RowCounts& rows) {
  return problem.shape.batch * rows.queries * problem.query_row_bytes() + problem.kv_block_bytes(rows.keys);
}

Index sink_bytes(const Problem& problem) { return problem.sink ? kernels::add_sink_bytes(problem.shape.heads) : 0; }

Index output_bytes(const Problem& problem, Index rows) {
  return problem.shape.batch * rows * problem.output_row_bytes();
}

}  // namespace

comm::RowBlock kv_block(const Problem& problem, void* data, Index held, Index unit_bytes) {
  return {data, problem.kv_parts(), held, unit_bytes, {0, held}};
}

std::array<core::TensorView, 2> kv_views(const Problem& problem, void* data, Index held, bool of_one_head) {
  const core::Shape& s = problem.shape;
  const Index numbers = problem.kv_numbers(), heads = of_one_head ? 1 : s.kv_heads;
  core::TensorView k = core::contiguous_view(data, problem.type, held, heads, numbers);
  if (of_one_head) k.head_stride = 0;  // a stored row has one head only
  core::TensorView v = k;
  const Index before = held == 0 ? 0 : s.has_value_dim() ? s.head_dim : s.batch * held * heads * numbers;
  v.data = static_cast<std::byte*>(data) + before * Index(core::bytes_of(problem.type));
  return {k, v};
}

Index dk_bytes(const Problem& problem, Index rows) {
  return problem.shape.batch * rows * problem.shape.kv_heads * problem.head_row_bytes();
}

Index KeyBlock::unit_bytes(const Problem& problem) const {
  return rows.is_packed() ? problem.head_kv_bytes() : problem.kv_row_bytes();
}

core::TensorView KeyBlock::view(const Problem& problem, Index which) const {
  if (data == nullptr && lent[std::size_t(which)].data != nullptr) return lent[std::size_t(which)];
  return kv_views(problem, data, held, rows.is_packed())[std::size_t(which)];
}

KeyBlock own_block(const Tensors& tensors, const pattern::StoredRows& rows) {
  return {tensors.kv.data(), rows.count(), pattern::KeyRows::raw(rows), {tensors.lent.k, tensors.lent.v}};
}

Computation::Computation(const Problem& problem, const pattern::StoredRows& queries, Tensors& tensors,
                         core::Count expected, const Progress& progress)
    : Computation(problem, queries, {{0, problem.shape.batch}, 0, queries.count()}, tensors, expected, progress) {}

Computation::Computation(const Problem& problem, const pattern::StoredRows& queries, const QueryRange& block,
                         Tensors& tensors, core::Count expected, const Progress& progress)
    : problem_(problem),
      queries_(queries),
      block_(block),
      shape_(with_entries(problem.shape, block.entries.size())),
      tensors_(tensors),
      progress_(progress),
      state_(empty_states(accumulator())),
      layout_(problem.layout()),
      expected_(expected) {
  if (problem.all_queries) return;  // the rank that owns the queries adds their filled-in keys
  for (const core::FilledRuns& runs : pattern::filled_keys(layout_, queries_)) kernels::add_filled_keys(runs, state_);
}

void Computation::begin(const Problem& round) {
  layout_ = round.layout();
  round_ = round_name(problem_, layout_);
}

core::TensorView Computation::view(const core::Buffer& tensor, core::DType type, Index numbers) const {
  const core::TensorView whole = core::contiguous_view(tensor.data(), type, block_.held, shape_.heads, numbers);
  return core::from_row(core::from_entry(whole, block_.entries.begin), block_.first);
}

core::TensorView Computation::queries_view() const {
  if (tensors_.lent.q.data != nullptr)
    return core::from_row(core::from_entry(tensors_.lent.q, block_.entries.begin), block_.first);
  return view(tensors_.q, problem_.type, problem_.shape.head_dim);
}

core::Buffer Computation::accumulator() {
  const Index bytes = kernels::State::acc_bytes(shape_, queries_.count(), problem_.precision);
  if (!problem_.is_in_place()) return {"state", bytes};
  if (block_.is_first())
    tensors_.out = made(tensors_.out, "out", problem_.shape.batch * block_.held * problem_.out_row_bytes());
  return core::Buffer::borrowed(view(tensors_.out, problem_.type, shape_.dim_of_values()).data, bytes);
}

kernels::State Computation::empty_states(core::Buffer acc) const {
  const int exponent_bias = problem_.reproducible && problem_.granule == 1 ? kernels::reproducible_exponent_bias : 0;
  kernels::State states(shape_, queries_.count(), problem_.precision, exponent_bias, problem_.statistics.entropy,
                        std::move(acc));
  states.exact_sums = problem_.statistics.need_pass();
  states.by_granules = problem_.granule > 1;
  states.key_parts = key_parts(problem_, block_.held);
  return states;
}

void Computation::add(const KeyBlock& block, const pattern::StoredRows& queries, core::Band part,
                      const std::string& where, core::HopMetrics& metrics, const std::function<void()>& poll) {
  const std::string scope = round_ + where;
  const Index entry = block_.entries.begin;
  const kernels::Operands operands{queries_view(), core::from_entry(block.view(problem_, 0), entry),
                                   core::from_entry(block.view(problem_, 1), entry), problem_.scale,
                                   problem_.call_rule()};
  const comm::Scope doing(scope);
  const std::function<void()> watched_poll = watched(poll, tensors_.poll);
  core::Span span("compute", core::SpanKind::compute);
  // One list after another, because items of two lists may share a query row and head; items of one list never do.
  for (const core::WorkList& list : pattern::work_lists(layout_, queries, block.rows, part)) {
    if (list.empty()) continue;
    const double cpu = core::cpu_seconds();
    kernels::attend(problem_.backend, list, operands, state_, watched_poll);
    metrics.kernel_cpu_seconds += core::cpu_seconds() - cpu;
    const core::Count kept = pattern::kept_triples(list) * shape_.batch;
    metrics.kept += kept;
    done_ += kept;
    if (progress_) progress_(double(done_) / double(std::max<core::Count>(1, expected_)), scope);
  }
  metrics.compute_seconds += span.close();
}

void Computation::finish(core::HopMetrics& metrics) {
  const core::Shape& s = problem_.shape;
  const Index held = block_.held;
  core::timed_compute(metrics, [&] {
    if (problem_.sink) kernels::add_sink(tensors_.sink, state_);  // last, because rows that see no key get no sink key
    if (block_.is_first()) {
      if (!problem_.is_in_place()) tensors_.out = made(tensors_.out, "out", s.batch * held * problem_.out_row_bytes());
      tensors_.lse = made(tensors_.lse, "lse", s.batch * held * problem_.lse_row_bytes());
      if (problem_.has_sums()) {
        tensors_.normalizers = core::Buffer("normalizers", s.batch * held * problem_.normalizer_row_bytes());
      }
      if (problem_.statistics.entropy) {
        tensors_.entropy = made(tensors_.entropy, "entropy", s.batch * held * problem_.lse_row_bytes());
      }
    }
    kernels::Finished to{view(tensors_.out, problem_.type, s.dim_of_values()),
                         view(tensors_.lse, core::lse_type(problem_.type), 1)};
    if (problem_.has_sums()) {
      to.normalizers = view(tensors_.normalizers, problem_.sum_type(), kernels::normalizer_numbers);
    }
    if (problem_.statistics.entropy) to.entropy = view(tensors_.entropy, core::lse_type(problem_.type), 1);
    kernels::finish(problem_.backend, state_, to, problem_.pattern.output_scale());
    state_ = kernels::State({}, 0, problem_.precision);
  });
}

kernels::State Computation::take_states() { return std::exchange(state_, kernels::State({}, 0, problem_.precision)); }

void Computation::merge(const kernels::State& of_ranks, Index ranks, core::HopMetrics& metrics) {
  core::timed_compute(metrics, [&] { kernels::merge_states(of_ranks, ranks, state_); });
}

std::string round_name(const Problem& problem, const pattern::Layout& round) {
  const Index all = Index(problem.pattern.pairs.size());
  return round.used_pairs().size() < all ? fmt::format("pair {} of {}, ", round.used_pairs().end, all) : "";
}

std::function<void()> watched(const std::function<void()>& poll, const std::function<void()>& callers) {
  if (!poll && !callers && !comm::is_watched()) return {};
  return [poll, callers] {
    comm::watchdog_progress();
    if (callers) callers();
    if (poll) poll();
  };
}

core::Shape item_shape(const Problem& problem) {
  const core::Shape& s = problem.shape;
  const kernels::LibraryBackend* const library = kernels::library_of(problem.backend);
  if (library != nullptr && library->takes_heads_together) return s;
  return {s.batch, s.sequence, std::min(s.heads, problem.layout().group()), 1, s.head_dim, s.value_dim};
}

Index kernel_memory(const Problem& problem, Index rows) {
  return kernels::attend_bytes(problem.backend, item_shape(problem), rows, problem.precision) +
         kernels::rule_bytes(problem.backend, problem.rule, problem.precision);
}

Index key_parts(const Problem& problem, Index rows) {
  if (problem.reproducible) return 1;
  const Index entries = std::max(problem.whole_batch, problem.shape.batch);
  return kernels::key_parts(problem.backend, with_entries(problem.shape, entries), rows);
}

Index key_parts_bytes(const Problem& problem, Index rows, bool backward) {
  const Index parts = key_parts(problem, rows);
  if (parts == 1) return 0;
  const core::Shape& s = problem.shape;
  const Index q = s.batch * rows * problem.query_row_bytes();
  if (!backward) return parts * (q + state_bytes(problem, s.batch, rows));
  const Index sums = s.heads * (s.head_dim + 1) * Index(core::bytes_of(problem.precision));  // dq, delta
  return parts * (q + s.batch * rows * (problem.out_row_bytes() + problem.normalizer_row_bytes() + sums));
}

QueryBlocks query_blocks(const Problem& problem, Index rows) {
  constexpr Index most = 24;  // a block then takes about 4 % of the bytes of all rows
  if (rows == 0) return {};
  const Index batch = problem.shape.batch;
  const Index least = kernels::attend_block_rows(problem.backend, with_entries(problem.shape, 1), problem.precision);
  const Index wanted = std::clamp<Index>(batch * rows / least, 1, most), entries = std::min(batch, wanted);
  return {entries, problem.is_in_place() ? 1 : std::clamp<Index>(rows / least, 1, wanted / entries)};
}

Index forward_memory(const Problem& problem, const RowCounts& held, const QueryBlocks& blocks, Index extra) {
  if (blocks.count() == 1) return local_memory(problem, held, extra);
  const Index rows = held.queries;
  // Rows are cut only where the grid allows it, which moves each of a block's two ends by at most half the spacing.
  const Index spacing = problem.granule > 1 && blocks.rows > 1 ? problem.grid().spacing() : 0;
  const Index largest = std::min(rows, core::ceil_div(rows, blocks.rows) + spacing);
  const core::Shape shape = with_entries(problem.shape, core::ceil_div(problem.shape.batch, blocks.entries));
  const Index in_place = problem.is_in_place() ? kernels::State::acc_bytes(shape, largest, problem.precision) : 0;
  // The first block makes out and lse of all rows, so they are counted from the start.
  return input_bytes(problem, held) + extra + kernel_memory(problem, largest) + output_bytes(problem, rows) +
         state_bytes(problem, shape.batch, largest) - in_place + sink_bytes(problem) +
         key_parts_bytes(problem, rows, false);
}

Index local_memory(const Problem& problem, const RowCounts& held, Index extra) {
  const Index rows = held.queries;
  // If sums are made in place, the memory of `out` is the accumulator of the softmaxes, which state_bytes() counts.
  const Index out = problem.is_in_place() ? problem.shape.batch * rows * problem.out_row_bytes() : 0;
  return input_bytes(problem, held) + state_bytes(problem, problem.shape.batch, rows) + kernel_memory(problem, rows) +
         std::max(
             {extra + key_parts_bytes(problem, rows, false), output_bytes(problem, rows) - out, sink_bytes(problem)});
}

core::Count kept_between(const Problem& problem, const pattern::StoredRows& queries, const pattern::KeyRows& keys) {
  return pattern::kept_triples(pattern::work_lists(problem.layout(), queries, keys)) * problem.shape.batch;
}

core::Count kept_of(const Problem& problem, const pattern::StoredRows& queries) {
  return pattern::KeptCounts(problem.layout()).of(queries) * problem.shape.batch;
}

}  // namespace annulus::strategies
