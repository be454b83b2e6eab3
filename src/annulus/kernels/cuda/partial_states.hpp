// The tables and partial states of a launch whose keys are split (key_split.hpp), in device memory.
#pragma once

#include "annulus/core/buffer.hpp"
#include "annulus/kernels/cuda/key_split.hpp"
#include "annulus/kernels/device/forward_team.hpp"

namespace annulus::kernels::cuda {

/// Sum: the type of the State's numbers. The memory is kept from call to call (kept_lists.hpp).
template <class Sum>
class PartialStates {
 public:
  /// Copies the tables of a split that cuts at least one team; complete on return.
  PartialStates(const KeySplit& split, Index head_dim);

  /// Bytes of one partial state: m, l and acc.
  static Index bytes_of_one(Index head_dim) { return (head_dim + 2) * Index(sizeof(Sum)); }

  const KeyPart* parts() const { return static_cast<const KeyPart*>(parts_.data()); }
  const core::Buffer& memory() const { return memory_; }
  /// Returns pointers into `memory`, which is memory() or a copy of it. The layout is (1, partial states, 1), so
  /// partial state n is (0, n, 0).
  device::StatePointers<Sum> pointers(void* memory) const {
    Sum* m = static_cast<Sum*>(memory);
    return {m, m + count_, nullptr, m + 2 * count_, count_, 1};
  }
  device::StatePointers<Sum> pointers() const { return pointers(memory_.data()); }

  /// Sets the states of each split team's queries to the sums of their partial states, added one after another. The
  /// partial states of the first part already contain these states. Runs after what was launched on the default
  /// execution space, and does not wait.
  void merge(const device::DeviceWorkView& work, const device::StatePointers<Sum>& state) const;

 private:
  Index head_dim_, count_, split_teams_;
  core::Buffer parts_, teams_, memory_;
};

extern template class PartialStates<float>;
extern template class PartialStates<double>;

}  // namespace annulus::kernels::cuda
