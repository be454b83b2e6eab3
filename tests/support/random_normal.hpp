// The numbers that core/random.hpp defines, one at a time; fill_normals() makes many at a time.
#pragma once

#include "annulus/core/random.hpp"

namespace annulus::test {

using core::Index;
using core::TensorId;

/// Number `index` of a tensor, standard normal.
inline float random_normal(std::uint64_t seed, TensorId tensor, Index index) {
  const core::NormalPair pair =
      core::box_muller(core::threefry(core::words_of(seed), core::counter_of(tensor, index / 2)));
  return index % 2 == 0 ? pair.even : pair.odd;
}

}  // namespace annulus::test
