#include "annulus/kernels/host/key_parts.hpp"

#include <algorithm>
#include <cstring>

#include "annulus/kernels/tuning.hpp"

namespace annulus::kernels::host {
namespace {

using core::Index;
using core::RowMap;
using core::Run;

/// Appends rows [begin, end) of a map to the list's runs, with their stored rows moved on by `shift`.
RowMap append(core::WorkList& list, const core::WorkList& work, const RowMap& map, Index begin, Index end,
              Index shift) {
  RowMap part{Index(list.runs.size()), 0, std::max<Index>(0, end - begin)};
  Index before = 0;
  for (Index i = map.first_run; i < map.first_run + map.runs; ++i) {
    const Run& run = work.runs[std::size_t(i)];
    const Index from = std::max<Index>(0, begin - before), to = std::min(run.count, end - before);
    before += run.count;
    if (from >= to) continue;
    list.runs.push_back({run.t + from, run.row + from * run.stride + shift, run.stride, to - from});
    ++part.runs;
  }
  return part;
}

}  // namespace

Index key_parts(const core::WorkList& work, const core::Shape& shape, Index bytes) {
  Index tasks = 0, keys = 0;
  for (const core::WorkItem& item : work.items) {
    tasks += shape.batch * core::ceil_div(item.query.count * item.head_count, tuning::host_min_task_rows);
    keys = std::max(keys, item.key.count);
  }
  if (tasks == 0 || 4 * tasks > tuning::host_wanted_tasks) return 1;
  return std::max<Index>(1, std::min({core::ceil_div(tuning::host_wanted_tasks, tasks), keys / tuning::host_part_keys,
                                      tuning::host_parts_bytes / std::max<Index>(1, bytes)}));
}

Index key_parts(const core::WorkList& work, const State& state) {
  if (state.exponent_bias != 0 || state.by_granules) return 1;
  const core::Shape& s = state.shape;
  const Index of_q = s.batch * state.rows * s.heads * s.head_dim * Index(sizeof(double));  // at most
  return key_parts(work, s, State::bytes(s, state.rows, state.precision, state.score_sum.bytes() > 0) + of_q);
}

Index key_parts(const core::WorkList& work, const core::Shape& shape, Index rows, const BackwardOperands& operands,
                const GradientViews& gradients) {
  if (operands.any_cut || operands.by_granules || gradients.begun_dk.data != nullptr) return 1;
  const Index numbers = 2 * shape.head_dim + 2 * shape.dim_of_values() + 3;  // q, dq, dout, out, normalizers, delta
  return key_parts(work, shape, shape.batch * rows * shape.heads * numbers * Index(sizeof(double)));
}

core::WorkList in_parts(const core::WorkList& work, Index rows, Index parts) {
  core::WorkList list;
  for (Index part = 0; part < parts; ++part) {
    for (const core::WorkItem& item : work.items) {
      const Index all = item.key.count, end = all * (parts - part) / parts, begin = all * (parts - part - 1) / parts;
      core::WorkItem cut = item;
      cut.query = append(list, work, item.query, 0, item.query.count, part * rows);
      cut.key = append(list, work, item.key, begin, end, 0);
      list.items.push_back(cut);
    }
  }
  return list;
}

core::Buffer repeated(const core::TensorView& from, const core::Shape& shape, Index dim, Index rows, Index parts) {
  const Index width = Index(core::bytes_of(from.type)), head = dim * width;
  core::Buffer copy("query rows of parts", shape.batch * parts * rows * shape.heads * head);
  Index to = 0;
  for (Index b = 0; b < shape.batch; ++b) {
    for (Index row = 0; row < parts * rows; ++row) {
      for (Index h = 0; h < shape.heads; ++h, to += head) {
        const Index at = b * from.batch_stride + row % rows * from.row_stride + h * from.head_stride;
        std::memcpy(copy.at(to), static_cast<const std::byte*>(from.data) + at * width, std::size_t(head));
      }
    }
  }
  return copy;
}

BackwardParts::BackwardParts(const core::Shape& of, Index of_rows, Index count, const BackwardOperands& whole,
                             const GradientViews& into)
    : shape(of), rows(of_rows), parts(count), operands(whole), gradients(into) {
  const auto repeat = [&](core::TensorView& view, Index dim) {
    if (view.data == nullptr) return;
    buffers.push_back(repeated(view, shape, dim, rows, parts));
    view = core::contiguous_view(buffers.back().data(), view.type, parts * rows, shape.heads, dim);
  };
  repeat(operands.q, shape.head_dim);
  for (core::TensorView* view : {&operands.dout, &operands.out}) repeat(*view, shape.dim_of_values());
  repeat(operands.normalizers, 2);
  repeat(operands.delta, 1);
  repeat(gradients.dq, shape.head_dim);
  if (gradients.dq.data != nullptr) core::fill_zero(gradients.dq.data, buffers.back().bytes());
}

void BackwardParts::add_to(const core::TensorView& dq) const {
  if (dq.data == nullptr) return;
  const auto add = [&](auto number) {
    using N = decltype(number);
    const N* from = static_cast<const N*>(gradients.dq.data);
    for (Index b = 0; b < shape.batch; ++b) {
      for (Index row = 0; row < parts * rows; ++row) {
        for (Index h = 0; h < shape.heads; ++h, from += shape.head_dim) {
          N* to = static_cast<N*>(dq.data) + b * dq.batch_stride + row % rows * dq.row_stride + h * dq.head_stride;
          for (Index d = 0; d < shape.head_dim; ++d) to[d] += from[d];
        }
      }
    }
  };
  dq.type == core::DType::float64 ? add(double()) : add(float());
}

}  // namespace annulus::kernels::host
