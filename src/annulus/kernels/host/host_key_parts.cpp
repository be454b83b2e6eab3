#include "annulus/kernels/host/key_parts.hpp"

#include <algorithm>
#include <cstring>

#include "annulus/kernels/tuning.hpp"

namespace annulus::kernels::host {
namespace {

using core::Index;
using core::RowMap;

/// Appends rows [begin, end) of `map`, which belongs to `work`, to the runs of `list`, and adds `shift` to the stored
/// row numbers of these rows. Returns the map of these rows in `list`.
RowMap append(core::WorkList& list, const core::WorkList& work, const RowMap& map, Index begin, Index end,
              Index shift) {
  RowMap part{Index(list.runs.size()), 0, std::max<Index>(0, end - begin)};
  Index before = 0;
  for (Index i = map.first_run; i < map.first_run + map.runs; ++i) {
    const core::Run& run = work.runs[std::size_t(i)];
    const Index from = std::max<Index>(0, begin - before), to = std::min(run.count, end - before);
    before += run.count;
    if (from >= to) continue;
    list.runs.push_back({run.t + from, run.row + from * run.stride + shift, run.stride, to - from});
    ++part.runs;
  }
  return part;
}

}  // namespace

Index key_parts(const core::Shape& shape, Index rows) {
  if (shape.batch * rows * shape.kv_heads == 0) return 1;  // if ranks divide the heads, a rank may have none
  const Index tasks = shape.batch * shape.kv_heads * core::ceil_div(rows * shape.group(), tuning::host_min_task_rows);
  if (4 * tasks > tuning::host_wanted_tasks) return 1;
  // How many numbers a row of a part needs in the backward pass: q, dq, dout, two of the normalizer, and delta. The
  // forward pass needs fewer: its state and q.
  const Index numbers = 2 * shape.head_dim + shape.dim_of_values() + 3,
              bytes = shape.batch * rows * shape.heads * numbers * Index(sizeof(double));
  return std::max<Index>(1, std::min({core::ceil_div(tuning::host_wanted_tasks, tasks),
                                      shape.sequence / tuning::host_part_keys, tuning::host_parts_bytes / bytes}));
}

Index key_parts(const core::WorkList& work, Index most) {
  Index keys = 0;
  for (const core::WorkItem& item : work.items) keys = std::max(keys, item.key.count);
  return std::max<Index>(1, std::min(most, keys / tuning::host_part_keys));
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
  repeat(operands.dout, shape.dim_of_values());
  operands.out = {};
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
