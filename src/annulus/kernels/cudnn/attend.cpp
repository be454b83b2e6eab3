#include "annulus/kernels/cudnn/attend.hpp"

#include <fmt/core.h>

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include "annulus/core/kokkos_compat.hpp"
#include "annulus/kernels/backend.hpp"
#include "annulus/kernels/cudnn/choice.hpp"
#include "annulus/kernels/cudnn/combs.hpp"
#include "annulus/kernels/cudnn/results.hpp"
#include "annulus/kernels/device/kept_lists.hpp"

namespace annulus::kernels::cudnn {
namespace {

using core::TensorView;
using Space = Kokkos::DefaultExecutionSpace;

// At most this many plans are made for one list, because the engine needs some time for each plan. Packed documents of
// different lengths would need hundreds of plans.
constexpr std::size_t most_shapes = 64;

ComputedPairs all_pairs;

double pairs_of(const core::WorkList& list, Index batch) {
  double pairs = 0;
  for (const core::WorkItem& item : list.items)
    pairs += double(batch) * double(item.head_count) * double(item.query.count) * double(item.key.count);
  return pairs;
}

void count_own(const core::WorkList& list, Index batch, const std::string& reason) {
  all_pairs.own += pairs_of(list, batch);
  if (all_pairs.reason.empty()) all_pairs.reason = reason;
}

/// The engine ignores the stride of a dimension of extent 1. This stride is always head_dim here, so that shapes that
/// differ only in such strides share a plan.
Index stride_of(Index extent, Index stride, Index head_dim) { return extent > 1 ? stride : head_dim; }

Strides query_strides(const StridedCall& call, Index batch, Index head_dim, const TensorView& tensor) {
  const bool many = call.segments > 1;
  return {stride_of(many ? call.segments : batch, many ? call.query.next * tensor.row_stride : tensor.batch_stride,
                    head_dim),
          stride_of(call.groups * call.heads, call.head_stride * tensor.head_stride, head_dim),
          stride_of(call.query.count, call.query.stride * tensor.row_stride, head_dim)};
}

Strides key_strides(const StridedCall& call, Index batch, Index head_dim, const TensorView& tensor) {
  const bool many = call.segments > 1;
  return {
      stride_of(many ? call.segments : batch, many ? call.key.next * tensor.row_stride : tensor.batch_stride, head_dim),
      stride_of(call.groups, call.next_kv_head * tensor.head_stride + call.next_key_row * tensor.row_stride, head_dim),
      stride_of(call.key.count, call.key.stride * tensor.row_stride, head_dim)};
}

/// Returns a plan's shape with the members that both passes use. `operands` has q, k, v and scale.
template <class AnyOperands>
PlanShape shape_of(const StridedCall& call, const core::Shape& shape, const AnyOperands& operands) {
  PlanShape plan;
  plan.type = operands.q.type;
  plan.batch = call.segments > 1 ? call.segments : shape.batch;
  plan.heads = call.groups * call.heads;
  plan.kv_heads = call.groups;
  plan.queries = call.query.count;
  plan.keys = call.key.count;
  plan.head_dim = shape.head_dim;
  plan.seen = call.seen;
  plan.scale = operands.scale;
  plan.q = query_strides(call, shape.batch, shape.head_dim, operands.q);
  plan.k = key_strides(call, shape.batch, shape.head_dim, operands.k);
  plan.v = key_strides(call, shape.batch, shape.head_dim, operands.v);
  return plan;
}

Places query_places(const StridedCall& call, const PlanShape& shape, Index entry) {
  const bool many = call.segments > 1;
  return {.batch = shape.batch,
          .heads = shape.heads,
          .rows = shape.queries,
          .first_batch = entry,
          .batch_step = many ? 0 : 1,
          .first_row = call.query.first,
          .row_stride = call.query.stride,
          .segment_step = many ? call.query.next : 0,
          .first_head = call.head_first,
          .head_stride = call.head_stride};
}

Places key_places(const StridedCall& call, const PlanShape& shape, Index entry) {
  const bool many = call.segments > 1;
  return {.batch = shape.batch,
          .heads = shape.kv_heads,
          .rows = shape.keys,
          .first_batch = entry,
          .batch_step = many ? 0 : 1,
          .first_row = call.key.first,
          .row_stride = call.key.stride,
          .segment_step = many ? call.key.next : 0,
          .head_step = call.next_key_row,
          .first_head = call.kv_head,
          .head_stride = call.next_kv_head};
}

const void* query_at(const StridedCall& call, const TensorView& tensor, Index entry) {
  return address(tensor, entry, call.query.first, call.head_first);
}
const void* key_at(const StridedCall& call, const TensorView& tensor, Index entry) {
  return address(tensor, entry, call.key.first, call.kv_head);
}

/// Memory that holds several arrays one after another, each at a multiple of 256 bytes.
class Scratch {
 public:
  explicit Scratch(core::Buffer memory)
      : memory_(std::move(memory)), taken_(-Index(reinterpret_cast<std::uintptr_t>(memory_.data())) & 255) {}
  static Index rounded(Index bytes) { return core::ceil_div(bytes, 256) * 256; }
  void* take(Index bytes) {
    void* const here = memory_.at(taken_);
    taken_ += rounded(bytes);
    return here;
  }
  float* floats(Index count) { return static_cast<float*>(take(count * Index(sizeof(float)))); }
  /// Takes memory for numbers of the tensors' type, which has 16 bits.
  void* numbers(Index count) { return take(2 * count); }

 private:
  core::Buffer memory_;
  Index taken_;
};

Index forward_bytes(Index vectors, Index head_dim) {
  return 256 + Scratch::rounded(2 * vectors * head_dim) + Scratch::rounded(4 * vectors) + Scratch::rounded(8 * vectors);
}

Index backward_bytes(Index vectors, Index key_vectors, Index head_dim) {
  return 256 + Scratch::rounded(2 * vectors * head_dim) + Scratch::rounded(4 * vectors) +
         2 * Scratch::rounded(2 * key_vectors * head_dim);
}

/// Polls until all that was launched is done.
void finish_launches(const Poll& poll) {
  const Space space;
  while (poll && core::is_busy(space)) poll();
  space.fence();
  if (poll) poll();
}

/// A call, and the shape of its plan.
struct Planned {
  StridedCall call;
  PlanShape shape;
};

/// Returns the calls for which the engine has plans, and raises `bytes` to the memory that the largest call needs. All
/// other work goes to own(list, reason), which computes it with our own kernels.
template <class ShapeOf, class BytesOf, class Own>
std::vector<Planned> planned(Engine& engine, const core::WorkList& work, const ShapeOf& shape_of_call,
                             const BytesOf& bytes_of, Index& bytes, const Own& own) {
  const CutList cut = cut_into_calls(work);
  std::vector<Planned> calls;
  std::set<PlanShape> shapes;
  for (const StridedCall& call : cut.calls) {
    const PlanShape shape = shape_of_call(call);
    if (shapes.insert(shape).second && shapes.size() > most_shapes) {
      own(list_of(call), fmt::format("more than {} shapes in one list", most_shapes));
      shapes.erase(shape);
      continue;
    }
    const Prepared plan = engine.prepare(shape);
    if (!plan.why_not.empty()) {
      own(list_of(call), plan.why_not);
      continue;
    }
    bytes = std::max(bytes, bytes_of(shape) + plan.workspace_bytes);
    calls.push_back({call, shape});
  }
  if (!cut.rest.items.empty()) own(cut.rest, cut.why_rest);
  return calls;
}

/// Returns how often a call is made: once for each batch entry if the library's batch dimension holds segments,
/// otherwise once.
Index entries_of(const StridedCall& call, const core::Shape& shape) { return call.segments > 1 ? shape.batch : 1; }

void count_engine(const Planned& one, Index entries) {
  const PlanShape& s = one.shape;
  all_pairs.library += double(entries) * double(s.batch) * double(s.heads) * double(s.queries) * double(s.keys);
}

}  // namespace

void attend(Engine& engine, const core::WorkList& work, const Operands& operands, State& state, const Poll& poll) {
  const core::Shape& shape = state.shape;
  const auto own = [&](const core::WorkList& list, const std::string& reason) {
    count_own(list, shape.batch, reason);
    device_backend.attend(list, operands, state, poll);
  };
  if (const std::string reason = why_not_attend(operands, state); !reason.empty()) return own(work, reason);
  Index bytes = 0;
  const std::vector<Planned> calls = planned(
      engine, work, [&](const StridedCall& call) { return shape_of(call, shape, operands); },
      [](const PlanShape& plan) { return forward_bytes(plan.rows(), plan.head_dim); }, bytes, own);
  const core::Buffer memory = device::kept_memory("cuDNN's results", bytes);
  const auto states = device::pointers_of<float>(state);
  for (const Planned& one : calls) {
    const Index vectors = one.shape.rows(), D = shape.head_dim;
    for (Index entry = 0; entry < entries_of(one.call, shape); ++entry) {
      Scratch scratch(memory);
      void* const out = scratch.numbers(vectors * D);
      float* const lse = scratch.floats(vectors);
      auto* const weights = static_cast<Weights*>(scratch.take(vectors * Index(sizeof(Weights))));
      engine.forward(one.shape,
                     {query_at(one.call, operands.q, entry), key_at(one.call, operands.k, entry),
                      key_at(one.call, operands.v, entry), out, lse},
                     scratch.take(0));
      const Places places = query_places(one.call, one.shape, entry);
      launch_vectors<Space>("annulus::merge_sums", MergeSums{places, lse, states, weights});
      launch_numbers<Space>("annulus::merge", MergeNumbers{places, D, {out, one.shape.type}, weights, states});
    }
    count_engine(one, entries_of(one.call, shape));
    if (poll) poll();
  }
  finish_launches(poll);
}

void attend_backward(Engine& engine, const core::WorkList& work, const core::Shape& shape, Index rows,
                     core::Precision precision, const BackwardOperands& operands, const GradientViews& gradients,
                     const Poll& poll) {
  const auto own = [&](const core::WorkList& list, const std::string& reason) {
    count_own(list, shape.batch, reason);
    device_backend.attend_backward(list, shape, rows, precision, operands, gradients, poll);
  };
  const std::string reason = why_not_attend_backward(shape, precision, operands, gradients);
  if (!reason.empty()) return own(work, reason);
  Index bytes = 0;
  const auto shape_of_call = [&](const StridedCall& call) {
    PlanShape plan = shape_of(call, shape, operands);
    plan.backward = true;
    plan.out = query_strides(call, shape.batch, shape.head_dim, operands.out);
    plan.dout = query_strides(call, shape.batch, shape.head_dim, operands.dout);
    return plan;
  };
  const std::vector<Planned> calls = planned(
      engine, work, shape_of_call,
      [](const PlanShape& plan) { return backward_bytes(plan.rows(), plan.key_rows(), plan.head_dim); }, bytes, own);
  const core::Buffer memory = device::kept_memory("cuDNN's results", bytes);
  // The engine's gradients contain the scale of the scores. Our kernels' sums do not, because finish_gradient()
  // multiplies by the scale. So the scale is divided out here.
  const float without_scale = float(1 / operands.scale);
  for (const auto& [call, plan] : calls) {
    const Index D = shape.head_dim;
    for (Index entry = 0; entry < entries_of(call, shape); ++entry) {
      Scratch scratch(memory);
      void* const dq = scratch.numbers(plan.rows() * D);
      float* const lse = scratch.floats(plan.rows());
      void *const dk = scratch.numbers(plan.key_rows() * D), *const dv = scratch.numbers(plan.key_rows() * D);
      const Places queries = query_places(call, plan, entry), keys = key_places(call, plan, entry);
      launch_vectors<Space>("annulus::lse", LseOfNormalizers{queries, operands.normalizers, lse});
      engine.backward(
          plan,
          {query_at(call, operands.q, entry), key_at(call, operands.k, entry), key_at(call, operands.v, entry),
           query_at(call, operands.out, entry), query_at(call, operands.dout, entry), lse, dq, dk, dv},
          scratch.take(0));
      const auto add = [&, type = plan.type](const Places& places, void* from, const TensorView& to, float unit) {
        launch_numbers<Space>("annulus::add_gradient", AddGradient{places, D, {from, type}, to, unit});
      };
      add(queries, dq, gradients.dq, without_scale);
      add(keys, dk, gradients.dk, without_scale);
      add(keys, dv, gradients.dv, 1);
    }
    count_engine({call, plan}, entries_of(call, shape));
    if (poll) poll();
  }
  finish_launches(poll);
}

Index attend_bytes(const core::Shape& shape, Index rows) {
  return forward_bytes(shape.batch * rows * shape.heads, shape.head_dim);
}

Index attend_backward_bytes(const core::Shape& shape, Index rows) {
  // cuDNN's plans were seen to need this workspace on a GPU: dq in float32, one number for each row and head and, if
  // query heads share keys, also dk and dv of each query head.
  const Index vectors = shape.batch * rows * shape.heads, sums = shape.heads > shape.kv_heads ? 3 : 1;
  const Index workspace = 4 * vectors * (sums * shape.head_dim + 1);
  return backward_bytes(vectors, shape.batch * rows * shape.kv_heads, shape.head_dim) + workspace;
}

const ComputedPairs& computed_pairs() { return all_pairs; }

std::string describe_pairs() {
  const bool any = all_pairs.library + all_pairs.own > 0;
  const std::string text =
      fmt::format("{:.1f} % of the (query, key) pairs on rank 0", any ? 100 * all_pairs.library_share() : 0);
  return all_pairs.own > 0 ? text + ", our own kernels the rest: " + all_pairs.reason : text;
}

std::optional<Refusal> refusal(const WantedOfBackend& wanted) {
  if (core::bytes_of(wanted.type) != 2) {
    return Refusal{"compute.backend", fmt::format("cudnn takes tensors of float16 and bfloat16, these are {}",
                                                  core::name_of(wanted.type))};
  }
  if (wanted.precision != core::Precision::float32) {
    return Refusal{"compute.precision", fmt::format("cudnn has only float32 (sums in float32, factors of products in "
                                                    "the tensors' type), not {}",
                                                    core::name_of(wanted.precision))};
  }
  if (wanted.score_rule) return Refusal{"compute.backend", "cudnn takes no scores with a cap or a bias"};
  if (wanted.statistics) return Refusal{"output.statistics", "cudnn makes no statistics"};
  if (wanted.dlse) return Refusal{"input.dlse", "cudnn takes no gradient of the LSE"};
  if (wanted.scaled_gradients)
    return Refusal{"attention.group_scale", "cudnn makes no gradients of an output that is scaled"};
  return std::nullopt;
}

}  // namespace annulus::kernels::cudnn
