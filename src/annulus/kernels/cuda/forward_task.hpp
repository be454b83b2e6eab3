// The arguments of all blocks of a forward launch, and what one of them keeps about its tile.
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
  const KeyPart* parts = nullptr;                  ///< one a block; none: a block is a team, with all its keys
  device::StatePointers<Sum> partial_states = {};  ///< (1, partial states, 1), where there are parts

  KOKKOS_FUNCTION KeyPart part_of(Index block) const {
    return parts == nullptr ? KeyPart{block, all_keys, no_partial, true} : parts[block];
  }
};

/// What a block keeps in shared memory about its tile of queries and their keys, so that it does not take registers.
/// Keys are met in descending order, tile 0 first, which is the one that may not be full.
struct ForwardFacts {
  core::RowMap keys;
  Index first_key;  ///< position of the first key that is met, at the end of the last tile
  const void* k;    ///< row 0 of the block's head and batch entry
  const void* v;
  Index first_state;  ///< number in the state of row 0 and the head
  Index partial;      ///< number of query 0's partial state, or no_partial
  int count;          ///< queries
  bool goes_on;       ///< from the State; else from nothing
};

}  // namespace annulus::kernels::cuda
