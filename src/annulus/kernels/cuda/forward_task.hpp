// The arguments of all blocks of a forward launch, and what a block keeps about its tile.
#pragma once

#include <Kokkos_Core.hpp>

#include "annulus/core/tensor_view.hpp"
#include "annulus/kernels/cuda/key_split.hpp"
#include "annulus/kernels/device/forward_team.hpp"

namespace annulus::kernels::cuda {

template <class Sum>
struct ForwardTask {
  device::DeviceWorkView work;
  core::TensorView q, k, v;
  device::StatePointers<Sum> state;
  Sum score_factor;  ///< scale * log2(e)
  int head_dim;
  const KeyPart* parts = nullptr;                  ///< one for each block; null: each block has all keys of a team
  device::StatePointers<Sum> partial_states = {};  ///< (1, partial states, 1); used if there are parts

  KOKKOS_FUNCTION KeyPart part_of(Index block) const {
    return parts == nullptr ? KeyPart{block, all_keys, no_partial, true} : parts[block];
  }
};

/// What a block keeps in shared memory about its tile of queries and their keys, to save registers.
/// Keys are met in descending order; tile 0 has the last keys and may not be full.
struct ForwardFacts {
  core::RowMap keys;
  Index first_key;  ///< lowest position of the keys that are met; the last tile begins with it
  const void* k;    ///< row 0 of the block's head and batch entry
  const void* v;
  Index first_state;  ///< index of (batch entry, row 0, head) in the State
  Index partial;      ///< number of query 0's partial state, or no_partial
  int count;          ///< number of queries
  bool goes_on;       ///< the block continues the State; otherwise it starts from empty states
};

}  // namespace annulus::kernels::cuda
