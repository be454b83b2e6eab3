// attend(), attend_backward() and attend_statistics() on the host: threads take the tasks of a work list.
#include <algorithm>

#include "annulus/core/error.hpp"
#include "annulus/core/head_dim.hpp"
#include "annulus/core/with_type.hpp"
#include "annulus/kernels/host/backward_runner.hpp"
#include "annulus/kernels/host/forward_runner.hpp"
#include "annulus/kernels/host/host_backend.hpp"
#include "annulus/kernels/host/key_parts.hpp"
#include "annulus/kernels/host/run_on_threads.hpp"
#include "annulus/kernels/host/statistics_runner.hpp"
#include "annulus/kernels/merge.hpp"

namespace annulus::kernels::host {
namespace {

Index threads() { return core::host_threads(); }

static_assert(kMaxHeadDim == core::most_head_dim && kMaxMatrixDim == core::most_matrix_dim);
void check_head_dim(const core::Shape& shape) {
  for (const Index dim : {shape.head_dim, shape.dim_of_values()}) {
    core::require(dim >= 1 && dim <= kMaxHeadDim,
                  [&] { return fmt::format("head size {} is not 1 ... {}", dim, kMaxHeadDim); });
  }
}

/// Returns the function table of a pass for words T. If on_matrix_unit is true, pairs use the table of a MatrixUnit in
/// two cases: if the set is amx, and if factors are sums of several bfloat16 numbers (parts > 1), for which there are
/// no other tables. If the set is not amx, this MatrixUnit is vector code that gives the same bits.
template <class T>
const TileFunctions<T>& pass_tiles(InstructionSet set, bool on_matrix_unit, int parts,
                                   decltype(&MatrixTiles::forward) pass) {
  const TileFunctions<T>& vectors = tiles_of<T>(set);
  if constexpr (kPerWord < T >> 1) {
    if (on_matrix_unit && (set == InstructionSet::amx || parts > 1)) return *(matrix_unit(set).*pass)[parts - 1];
  }
  return vectors;
}
template <class T>
const TileFunctions<T>& forward_tiles(InstructionSet set, bool on_matrix_unit, core::Precision precision) {
  return pass_tiles<T>(set, on_matrix_unit, parts_of(precision), &MatrixTiles::forward);
}
template <class T>
const TileFunctions<T>& backward_tiles(InstructionSet set, bool on_matrix_unit, core::Precision precision) {
  return pass_tiles<T>(set, on_matrix_unit, parts_of(precision), &MatrixTiles::backward);
}

/// Returns how many bytes all threads together take at most, whether a call uses the matrix unit or not.
/// bytes(number, on_matrix_unit) returns what one thread takes; the type of `number` is the word type.
template <class Bytes>
Index most_bytes(const core::Shape& shape, core::Precision precision, const Bytes& bytes) {
  const auto of = [&](bool on_matrix_unit) {
    return with_words(precision, on_matrix_unit, [&](auto number) { return bytes(number, on_matrix_unit); });
  };
  return threads() * (why_not_matrix(shape).empty() ? std::max(of(false), of(true)) : of(false));
}

/// Runs tasks of keys (KeyTasks). make_sums(tiles, layout) returns the object of type `Sums` with which KeyTasks works.
template <class MakeSums>
void run_key_tasks(const char* label, const WorkList& work, const core::Shape& shape, Index rows,
                   core::Precision precision, const std::function<void()>& poll, InstructionSet set,
                   bool on_matrix_unit, const MakeSums& make_sums) {
  check_head_dim(shape);
  with_words(precision, on_matrix_unit, [&](auto number) {
    using T = decltype(number);
    const auto& tiles = backward_tiles<T>(set, on_matrix_unit, precision);
    const BackwardLayout<T> layout(tiles, shape, rows);
    const auto tasks = make_backward_tasks(work, shape.batch, layout.max_keys, tiles.backward_key_step, threads());
    const auto sums = make_sums(tiles, layout);
    KeyTasks<T, decltype(make_sums(tiles, layout))> runner(tiles, work, layout.chunk_rows, sums, tasks.size());
    run_on_threads(label, Index(tasks.size()), poll,
                   [&](Index i, const auto& poll_here, const auto& wait) { runner.run(tasks[i], wait, poll_here); });
  });
}

/// attend() without key parts: a task has all keys of its item that its rows see.
void attend_together(const WorkList& work, const Operands& operands, State& state, const std::function<void()>& poll,
                     InstructionSet set, const TileSizes& sizes) {
  const bool on_matrix_unit = why_not_matrix(state, operands.rule).empty();
  with_words(state.precision, on_matrix_unit, [&](auto number) {
    const auto& tiles = forward_tiles<decltype(number)>(set, on_matrix_unit, state.precision);
    ForwardRunner<decltype(number)> runner(tiles, work, operands, state, sizes);
    const auto tasks = make_tasks(work, state.shape.batch, runner.layout().max_rows, threads());
    run_on_threads("annulus::attend", Index(tasks.size()), poll,
                   [&](Index i, const auto& poll_here, const auto&) { runner.run(tasks[i], poll_here); });
  });
}

/// attend_backward() without key parts: one chain of tasks adds all keys of an item to dq.
void backward_together(const WorkList& work, const core::Shape& shape, Index rows, core::Precision precision,
                       const BackwardOperands& operands, const GradientViews& gradients,
                       const std::function<void()>& poll, InstructionSet set) {
  run_key_tasks(
      "annulus::attend_backward", work, shape, rows, precision, poll, set,
      why_not_matrix(shape).empty() && why_not_matrix(operands, gradients).empty(),
      [&](const auto& tiles, const auto& layout) { return GradientSums(tiles, layout, work, operands, gradients); });
}

}  // namespace

void host_attend(const WorkList& work, const Operands& operands, State& state, const std::function<void()>& poll,
                 InstructionSet set, const TileSizes& sizes) {
  check_head_dim(state.shape);
  if (const Index parts = key_parts(work, state.key_parts); parts > 1) {
    State of_parts(state.shape, parts * state.rows, state.precision, 0, state.score_sum.bytes() > 0);
    of_parts.exact_sums = state.exact_sums;
    Operands repeating = operands;
    const core::Buffer q = repeated(operands.q, state.shape, state.shape.head_dim, state.rows, parts);
    repeating.q =
        core::contiguous_view(q.data(), operands.q.type, of_parts.rows, state.shape.heads, state.shape.head_dim);
    attend_together(in_parts(work, state.rows, parts), repeating, of_parts, poll, set, sizes);
    return merge_states(of_parts, parts, state);
  }
  attend_together(work, operands, state, poll, set, sizes);
}
Index host_attend_bytes(const core::Shape& shape, Index rows, core::Precision precision, InstructionSet set) {
  if (rows == 0) return 0;
  const auto bytes = [&](const auto& tiles) {
    const ForwardLayout layout(tiles, shape, {});
    const Index most = std::max(layout.max_rows, shape.group());  // at least one query row with all its heads
    return Scratch::bytes_of(
        [&](Scratch& s) { return ForwardMemory(s, tiles, layout, std::min(most, rows * shape.group()), true, true); });
  };
  return most_bytes(shape, precision, [&](auto number, bool on_matrix_unit) {
    return bytes(forward_tiles<decltype(number)>(set, on_matrix_unit, precision));
  });
}

void host_attend_backward(const WorkList& work, const core::Shape& shape, Index rows, core::Precision precision,
                          const BackwardOperands& operands, const GradientViews& gradients,
                          const std::function<void()>& poll, InstructionSet set) {
  if (const Index parts = key_parts(work, operands.key_parts); parts > 1) {
    const BackwardParts cut(shape, rows, parts, operands, gradients);
    // No item has more than `rows` query rows, so panels are as large as without parts.
    backward_together(in_parts(work, rows, parts), shape, rows, precision, cut.operands, cut.gradients, poll, set);
    return cut.add_to(gradients.dq);
  }
  backward_together(work, shape, rows, precision, operands, gradients, poll, set);
}

void host_attend_statistics(const WorkList& work, const core::Shape& shape, Index rows, core::Precision precision,
                            const StatisticOperands& operands, const StatisticViews& statistics,
                            const std::function<void()>& poll, InstructionSet set) {
  run_key_tasks("annulus::attend_statistics", work, shape, rows, precision, poll, set, false,
                [&](const auto& tiles, const auto& layout) {
                  return ProbabilitySums(tiles, layout, work, shape, rows, operands, statistics);
                });
}

Index host_attend_statistics_bytes(const core::Shape& shape, Index rows, Index slots, Index pairs,
                                   core::Precision precision, InstructionSet set) {
  return threads() * with_words(precision, false, [&](auto number) {
           const auto& tiles = tiles_of<decltype(number)>(set);
           const BackwardLayout layout(tiles, shape, rows);
           return Scratch::bytes_of(
               [&](Scratch& s) { return StatisticsMemory(s, tiles, layout, slots, pairs, layout.max_keys, true); });
         });
}

Index host_attend_backward_bytes(const core::Shape& shape, Index rows, core::Precision precision, bool in_blocks,
                                 InstructionSet set) {
  const auto bytes = [&](const auto& tiles) {
    const BackwardLayout layout(tiles, shape, rows);
    return Scratch::bytes_of(
        [&](Scratch& s) { return BackwardMemory(s, tiles, layout, layout.max_keys, in_blocks, true); });
  };
  return most_bytes(shape, precision, [&](auto number, bool on_matrix_unit) {
    return bytes(backward_tiles<decltype(number)>(set, on_matrix_unit && !in_blocks, precision));
  });
}

}  // namespace annulus::kernels::host
