#include "annulus/strategies/backward_computation.hpp"

#include <algorithm>
#include <utility>

#include "annulus/kernels/sink.hpp"

namespace annulus::strategies {
namespace {

using kernels::Gradient;

/// True if results may be written over their sums: always, except if results are float64 and sums are float32.
bool results_replace_sums(const Problem& problem) {
  return core::bytes_of(problem.type) <= core::bytes_of(problem.precision);
}
/// The same for dK and dV. They are not written over their sums, either, if one row of sums holds both dK and dV.
bool key_results_replace_sums(const Problem& problem) {
  return results_replace_sums(problem) && !problem.shape.has_value_dim();
}

/// Turns rows of sums into rows of a gradient.
void finish_views(const Problem& problem, Gradient which, Index heads, Index rows, const core::TensorView& sums,
                  const core::TensorView& result) {
  const Index numbers = which == Gradient::dv ? problem.shape.dim_of_values() : problem.shape.head_dim;
  kernels::finish_gradient(problem.backend, which, 1, rows, heads, numbers, problem.precision, sums, result,
                           problem.scale, problem.pattern.output_scale());
}

/// Turns sums of `heads` heads per row into gradients: rows `rows` of `sums` become rows of `result` from row `to` on.
void finish_rows(const Problem& problem, Gradient which, Index heads, core::Interval rows, const core::Buffer& sums,
                 const core::Buffer& result, Index to) {
  const auto view = [&](const core::Buffer& buffer, core::DType type, Index row) {
    const Index before = row * heads * problem.shape.head_dim * Index(core::bytes_of(type));
    return core::contiguous_view(buffer.at(before), type, rows.size(), heads, problem.shape.head_dim);
  };
  finish_views(problem, which, heads, rows.size(), view(sums, problem.sum_type(), rows.begin),
               view(result, problem.type, to));
}

/// Makes dK and dV of `rows` rows of all batch entries from `sums` (a GradientBlock); `dk` and `dv` lie outside
/// `sums`.
void finish_key_rows(const Problem& problem, Index rows, const core::Buffer& sums, void* dk, void* dv) {
  const Index all = problem.shape.batch * rows, heads = problem.shape.kv_heads;
  const GradientBlock block{sums.data(), rows, false};
  const auto finish = [&](Gradient which, void* to, Index numbers) {
    finish_views(problem, which, heads, all, block.view(problem, which == Gradient::dv ? 1 : 0),
                 core::contiguous_view(to, problem.type, all, heads, numbers));
  };
  finish(Gradient::dk, dk, problem.shape.head_dim);
  finish(Gradient::dv, dv, problem.shape.dim_of_values());
}

/// Does what finish_rows() does, for row 0 in place. Goes through a buffer, because the kernel would otherwise
/// overwrite sums that it still reads.
void finish_first_row(const Problem& problem, Gradient which, Index heads, const core::Buffer& sums) {
  const core::Buffer row("gradient row", heads * problem.head_row_bytes());
  finish_rows(problem, which, heads, {0, 1}, sums, row, 0);
  std::vector<std::byte> bytes(std::size_t(row.bytes()));
  core::copy_to_host(bytes.data(), row.data(), row.bytes());
  core::copy_to_device(sums.data(), bytes.data(), row.bytes());
}

/// Turns rows of sums into rows of a gradient in `result`, which may be the memory of the sums. If `result` is this
/// memory and the types differ, a result has at most half the bytes of its sum. So the results of rows [0, 2 b) fit
/// where the sums of rows [0, b) were. When rows [0, b) are done, rows [b, 2 b) can therefore be written in one call.
void finish_one(const Problem& problem, Gradient which, Index heads, core::Interval rows, const core::Buffer& sums,
                const core::Buffer& result) {
  const bool moves = sums.data() == result.data() && problem.type != problem.sum_type();
  for (Index begin = rows.begin; begin < rows.end;) {
    const Index end = moves ? std::min(rows.end, std::max<Index>(1, 2 * begin)) : rows.end;
    if (moves && begin == 0) {
      finish_first_row(problem, which, heads, sums);
    } else {
      finish_rows(problem, which, heads, {begin, end}, sums, result, begin);
    }
    begin = end;
  }
}

core::Buffer buffer_for_results(const Problem& problem, const core::Buffer& sums, const core::Buffer& callers,
                                const std::string& name, Index bytes) {
  if (callers.is_borrowed() && callers.bytes() == bytes) return callers;
  return results_replace_sums(problem) ? sums.first(bytes) : core::Buffer(name, bytes);
}

/// Returns the tensor that the caller lent or, if the caller lent none, the one in a buffer.
core::TensorView lent_or_own(const core::TensorView& lent, const core::TensorView& own) {
  return lent.data != nullptr ? lent : own;
}

/// Makes dQ of `rows` rows of all batch entries from their sums.
core::Buffer finish_dq(const Problem& problem, Index rows, const core::Buffer& sums, const core::Buffer& callers) {
  core::Buffer dq = buffer_for_results(problem, sums, callers, "dq", rows * problem.query_row_bytes());
  finish_one(problem, Gradient::dq, problem.shape.heads, {0, rows}, sums, dq);
  return dq;
}

}  // namespace

Index query_sum_bytes(const Problem& problem, Index rows) {
  return problem.shape.batch * rows * problem.shape.heads * problem.head_query_sum_bytes();
}

core::Buffer make_delta(const Problem& problem, Index rows, const Tensors& tensors) {
  const core::Shape& s = problem.shape;
  const Index all = s.batch * rows, out_bytes = all * problem.out_row_bytes();
  core::require((tensors.lent.out.data != nullptr || tensors.out.bytes() == out_bytes) &&
                    (tensors.lent.dout.data != nullptr || tensors.dout.bytes() == out_bytes) &&
                    tensors.normalizers.bytes() == all * problem.normalizer_row_bytes(),
                [&] {
                  return fmt::format(
                      "backward() got {}, {} and {} bytes of out, dout and normalizers; expected {}, {} and {}: "
                      "forward() makes normalizers only if the problem asks for gradients",
                      tensors.out.bytes(), tensors.dout.bytes(), tensors.normalizers.bytes(), out_bytes, out_bytes,
                      all * problem.normalizer_row_bytes());
                });
  const auto view = [&](const core::Buffer& buffer, core::DType type, Index numbers) {
    return core::contiguous_view(buffer.data(), type, rows, s.heads, numbers);
  };
  core::Buffer delta("delta", all * s.heads * Index(core::bytes_of(problem.precision)));
  if (all == 0) return delta;
  kernels::backward_delta(problem.backend, s, rows,
                          lent_or_own(tensors.lent.out, view(tensors.out, problem.type, s.dim_of_values())),
                          lent_or_own(tensors.lent.dout, view(tensors.dout, problem.type, s.dim_of_values())),
                          lent_or_own(tensors.lent.dlse, view(tensors.dlse, core::lse_type(problem.type), 1)),
                          view(delta, problem.sum_type(), 1));
  return delta;
}

void make_sink_sums(const Problem& problem, Index rows, Tensors& tensors) {
  if (!problem.sink) return;
  const auto view = [&](const core::Buffer& buffer, Index numbers) {
    return core::contiguous_view(buffer.data(), problem.sum_type(), rows, problem.shape.heads, numbers);
  };
  tensors.sink_sums =
      kernels::sink_gradient(problem.shape, rows, tensors.sink, view(tensors.normalizers, kernels::normalizer_numbers),
                             view(tensors.delta, 1));
}

Index sink_sum_bytes(const Problem& problem) {
  return problem.sink ? kernels::sink_gradient_bytes(problem.shape.heads) : 0;
}

BackwardComputation::BackwardComputation(const Problem& problem, const RowCounts& own_rows, Tensors& tensors,
                                         core::Count expected, const Progress& progress, Wanted wanted)
    : SumComputation(problem, own_rows, tensors, expected, progress, wanted != Wanted::of_queries),
      tensors_(tensors),
      wanted_(wanted),
      dq_(wanted == Wanted::of_keys ? core::Buffer()
                                    : made(tensors.dq, "dq", query_sum_bytes(problem, own_rows.queries))) {
  core::fill_zero(dq_.data(), dq_.bytes());
}

void BackwardComputation::attend(const core::WorkList& list, const KeyBlock& block, const QueryBlock& queries,
                                 const GradientBlock& into, const std::function<void()>& poll) {
  const core::Shape& s = problem_.shape;
  const core::DType sums = problem_.sum_type();
  const Tensors& t = queries.tensors;
  const Index rows = queries.held.count();
  kernels::BackwardOperands operands{lent_or_own(t.lent.q, view(t.q, problem_.type, rows, s.head_dim)),
                                     block.view(problem_, 0),
                                     block.view(problem_, 1),
                                     lent_or_own(t.lent.dout, view(t.dout, problem_.type, rows, s.dim_of_values())),
                                     view(t.normalizers, sums, rows, kernels::normalizer_numbers),
                                     view(t.delta, sums, rows, 1),
                                     problem_.scale,
                                     problem_.pattern.output_scale(),
                                     problem_.reproducible && problem_.granule == 1,
                                     problem_.granule > 1};
  operands.key_parts = key_parts(problem_, rows);
  operands.rule = problem_.call_rule();
  if (t.lent.dlse.data == nullptr && t.dlse.bytes() == 0)
    operands.out = lent_or_own(t.lent.out, view(t.out, problem_.type, rows, s.dim_of_values()));
  kernels::GradientViews gradients{view(dq_, sums, rows, s.head_dim), into.view(problem_, 0), into.view(problem_, 1)};
  if (problem_.has_query_block_sums()) {
    gradients.begun_dk = into.view(problem_, 2);
    gradients.begun_dv = into.view(problem_, 3);
  }
  kernels::attend_backward(problem_.backend, list, s, rows, problem_.precision, operands, gradients, poll);
}

core::Buffer BackwardComputation::finish_queries(core::HopMetrics& metrics) {
  tensors_.delta = {};
  if (wanted_ == Wanted::of_keys) return take_own();
  core::timed_compute(metrics, [&] {
    tensors_.dq = finish_dq(problem_, problem_.shape.batch * own_rows_.queries, dq_, tensors_.dq);
    dq_ = {};
  });
  return take_own();
}

BackwardComputation::Made BackwardComputation::take_sums() {
  tensors_.delta = {};
  return {std::exchange(dq_, {}), take_own()};
}

void BackwardComputation::finish(core::HopMetrics& metrics) {
  core::Buffer sums = finish_queries(metrics);
  if (wanted_ == Wanted::of_queries) return;
  if (tensors_.dk.bytes() == 0) {
    tensors_.dkv = finish_keys(problem_, own_rows_.keys, std::move(sums), metrics);
    return;
  }
  core::timed_compute(metrics, [&] {
    end_blocks(problem_, {sums.data(), own_rows_.keys, false});
    finish_key_rows(problem_, own_rows_.keys, sums, tensors_.dk.data(), tensors_.dv.data());
  });
}

core::Buffer finish_keys(const Problem& problem, Index rows, core::Buffer sums, core::HopMetrics& metrics) {
  const core::Shape& s = problem.shape;
  const Index all = s.batch * rows;
  core::timed_compute(metrics, [&] { end_blocks(problem, {sums.data(), rows, false}); });
  const Index bytes = problem.kv_block_bytes(rows);
  core::Buffer result = key_results_replace_sums(problem) ? sums.first(bytes) : core::Buffer("dkv", bytes);
  core::timed_compute(metrics, [&] {
    if (problem.shape.has_value_dim())
      return finish_key_rows(problem, rows, sums, result.data(), result.at(dk_bytes(problem, rows)));
    finish_one(problem, Gradient::dk, s.kv_heads, {0, all}, sums, result);
    finish_one(problem, Gradient::dv, s.kv_heads, {all, 2 * all}, sums, result);
  });
  return result;
}

core::Buffer finish_query_sums(const Problem& problem, Index rows, Index parts, const core::Buffer& sums,
                               const core::Buffer& callers, core::HopMetrics& metrics) {
  const Index batch = problem.shape.batch, row = problem.shape.heads * problem.head_query_sum_bytes();
  const core::Buffer own = made(callers, "dq", query_sum_bytes(problem, rows));
  core::Buffer dq;
  core::timed_compute(metrics, [&] {
    core::fill_zero(own.data(), own.bytes());
    std::vector<kernels::RowCopy> copies;
    for (Index part = 0; part < parts; ++part) copies.push_back({0, 1, rows, part * rows});
    if (rows > 0) {
      kernels::add_rows(copies, {sums.data(), batch, parts * rows, row}, {own.data(), batch, rows, row},
                        problem.precision);
    }
    dq = finish_dq(problem, batch * rows, own, callers);
  });
  return dq;
}

Index backward_blocks(const Problem& problem, const RowCounts& rows) {
  const Index batch = problem.shape.batch;
  const Index all = query_sum_bytes(problem, rows.queries) + key_sum_bytes(problem, rows.keys);
  if (all == 0) return 1;
  return core::ceil_div(batch, kernels::backward_block_entries(problem.backend, problem.shape, all / batch));
}

Tensors entries_of(const Problem& problem, Index queries, const pattern::StoredRows& own, Tensors& tensors,
                   core::Interval entries) {
  const Index batch = problem.shape.batch;
  const auto part = [&](const core::Buffer& whole) {
    const Index each = whole.bytes() / batch;
    return each == 0 ? core::Buffer() : core::Buffer::borrowed(whole.at(entries.begin * each), entries.size() * each);
  };
  const auto lent = [&](const core::TensorView& view) {
    return view.data == nullptr ? view : core::from_entry(view, entries.begin);
  };
  if (tensors.dk.bytes() == 0) {
    tensors.dkv = core::Buffer("dkv", problem.kv_block_bytes(own.count()));
    const Index dk = dk_bytes(problem, own.count());
    tensors.dk = core::Buffer::borrowed(tensors.dkv.data(), dk);
    tensors.dv = core::Buffer::borrowed(tensors.dkv.at(dk), tensors.dkv.bytes() - dk);
  }
  if (entries.begin == 0) tensors.dq = made(tensors.dq, "dq", batch * queries * problem.query_row_bytes());
  const KeyBlock keys = own_block(tensors, own);
  Tensors some;
  some.q = part(tensors.q);
  some.out = part(tensors.out);
  some.normalizers = part(tensors.normalizers);
  some.dout = part(tensors.dout);
  some.delta = part(tensors.delta);
  some.dlse = part(tensors.dlse);
  some.dq = part(tensors.dq);
  some.dk = part(tensors.dk);
  some.dv = part(tensors.dv);
  some.lent = {lent(tensors.lent.q),   lent(keys.view(problem, 0)), lent(keys.view(problem, 1)),
               lent(tensors.lent.out), lent(tensors.lent.dout),     lent(tensors.lent.dlse)};
  some.poll = tensors.poll;
  return some;
}

Index backward_panels(const Problem& problem, Index rows) {
  if (rows == 0) return 0;
  return std::max(kernel_memory(problem, rows),
                  kernels::attend_backward_bytes(problem.backend, item_shape(problem), rows, problem.precision,
                                                 problem.has_query_block_sums())) +
         key_parts_bytes(problem, rows, true);
}

Index backward_inputs(const Problem& problem, const RowCounts& rows) {
  const Index out_and_lse = problem.out_row_bytes() + problem.lse_row_bytes();
  const Index of_queries = problem.query_row_bytes() + problem.normalizer_row_bytes() + 2 * out_and_lse;
  return problem.shape.batch * rows.queries * of_queries + problem.kv_block_bytes(rows.keys);
}

Index backward_work(const Problem& problem, const RowCounts& held, Index extra, Wanted wanted) {
  const Index rows = held.queries, all = problem.shape.batch * rows;
  const Index delta = all * problem.shape.heads * Index(core::bytes_of(problem.precision));
  const bool dq_wanted = wanted != Wanted::of_keys, dkv_wanted = wanted != Wanted::of_queries;
  const Index query_sums = dq_wanted ? query_sum_bytes(problem, rows) : 0;
  const Index key_sums = dkv_wanted ? key_sum_bytes(problem, held.keys) : 0;
  const Index dq = results_replace_sums(problem) || !dq_wanted ? 0 : all * problem.query_row_bytes();
  const Index dkv = key_results_replace_sums(problem) || !dkv_wanted ? 0 : problem.kv_block_bytes(held.keys);
  const bool any = rows > 0 || held.keys > 0;
  const Index narrower = core::bytes_of(problem.type) < core::bytes_of(problem.precision) && any;
  const Index one_row = narrower * std::max(problem.query_row_bytes(), problem.kv_row_bytes());  // finish_first_row()
  // At the end results replace sums in memory: first dq the sums of the queries, then dkv the sums of the keys.
  const Index after_dq = results_replace_sums(problem) ? query_sums : dq;
  return backward_panels(problem, rows) + std::max({query_sums + key_sums + std::max({delta + extra, dq, one_row}),
                                                    after_dq + key_sums + dkv, delta + sink_sum_bytes(problem)});
}

Index backward_work_in_blocks(const Problem& problem, const RowCounts& rows, Index blocks) {
  const Index batch = problem.shape.batch, all = batch * rows.queries, entries = core::ceil_div(batch, blocks);
  const Index delta = all * problem.shape.heads * Index(core::bytes_of(problem.precision));
  const Index results = all * problem.query_row_bytes() + problem.kv_block_bytes(rows.keys);
  const Index query_sums = problem.is_in_place() ? 0 : query_sum_bytes(problem, rows.queries);
  const Index sums = (query_sums + key_sum_bytes(problem, rows.keys)) / batch;
  return backward_panels(problem, rows.queries) + delta + std::max(results + entries * sums, sink_sum_bytes(problem));
}

}  // namespace annulus::strategies
