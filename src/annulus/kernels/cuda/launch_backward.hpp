// Launches the block programs of the backward pass.
#pragma once

#include "annulus/kernels/cuda/backward_block.hpp"
#include "annulus/kernels/cuda/launch.hpp"

namespace annulus::kernels::cuda {

template <class Block>
void launch_side(const core::WorkList& list, Index batch, typename Block::Task task, const Poll& poll) {
  const device::DeviceWork work(list, batch, Block::owner, Block::rows);
  task.work = work.view();
  run_all<Block>("annulus::attend_backward", work, task, poll);
}

template <class Sum>
BackwardTask<Sum> backward_task(const core::Shape& shape, const BackwardOperands& operands,
                                const GradientViews& gradients) {
  return {{}, operands, gradients, Sum(operands.scale * std::numbers::log2e), int(shape.head_dim)};
}

/// attend_backward() by blocks that own queries, then by blocks that own keys.
template <class Queries, class Keys>
bool launch_blocks(const core::WorkList& list, const core::Shape& shape, const BackwardOperands& operands,
                   const GradientViews& gradients, const Poll& poll) {
  if (!can_run<Queries>() || !can_run<Keys>()) return false;
  if (list.empty()) return true;
  const auto task = backward_task<typename Queries::Sum>(shape, operands, gradients);
  if (gradients.dq.data != nullptr) launch_side<Queries>(list, shape.batch, task, poll);
  if (gradients.dk.data != nullptr) launch_side<Keys>(list, shape.batch, task, poll);
  return true;
}

/// attend_backward() with the first sizes in the two tables that have enough columns and that the GPU can run. Returns
/// false if there are none. Sizes of the same index in both tables have the same columns.
template <template <class, int> class Engine, class Number, const auto& query_table, const auto& key_table,
          std::size_t entry = 0>
bool launch_backward_of(const core::WorkList& list, const core::Shape& shape, const BackwardOperands& operands,
                        const GradientViews& gradients, const Poll& poll) {
  static_assert(std::size(query_table) == std::size(key_table));
  if constexpr (entry < std::size(query_table)) {
    static_assert(query_table[entry].columns == key_table[entry].columns);
    using Queries = BackwardBlock<Engine, Number, Adds::dq, query_table[entry]>;
    using Keys = BackwardBlock<Engine, Number, Adds::dk_and_dv, key_table[entry]>;
    return (shape.head_dim <= query_table[entry].columns &&
            launch_blocks<Queries, Keys>(list, shape, operands, gradients, poll)) ||
           launch_backward_of<Engine, Number, query_table, key_table, entry + 1>(list, shape, operands, gradients,
                                                                                 poll);
  } else {
    return false;
  }
}

}  // namespace annulus::kernels::cuda
