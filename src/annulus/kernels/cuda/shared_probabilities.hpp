// Sends P from one warp of a pair to the other (backward_block.hpp), through shared memory. Both warps have sums of the
// same rows in the same lanes. So a lane writes 16 bytes at a time, which only the same lane of the other warp reads.
#pragma once

#include <Kokkos_Core.hpp>
#include <type_traits>

#include "annulus/kernels/cuda/backward_memory.hpp"

namespace annulus::kernels::cuda {

template <class Memory, class Sums, int row_tiles, int pieces>
class SharedProbabilities {
 public:
  using TileSums = Sums[row_tiles][pieces];

  template <class Machine>
  KOKKOS_FORCEINLINE_FUNCTION static void put(Machine& machine, const Lane& lane, const TileSums& p) {
    ANNULUS_UNROLL
    for (int n = 0; n < Memory::halves; ++n) {
      Half half;
      ANNULUS_UNROLL
      for (int i = 0; i < numbers; ++i) half.of[i] = p[n / (2 * pieces)][n / 2 % pieces][n % 2][i];
      machine.store(Memory::probabilities_of(lane, n), half);
    }
  }
  /// Reads what put() has written in the other warp. A barrier must be between put() and take().
  template <class Machine>
  KOKKOS_FORCEINLINE_FUNCTION static void take(const Machine& machine, const Lane& lane, TileSums& p) {
    ANNULUS_UNROLL
    for (int n = 0; n < Memory::halves; ++n) {
      const Half half = machine.template load<Half>(Memory::probabilities_of(lane, n));
      ANNULUS_UNROLL
      for (int i = 0; i < numbers; ++i) p[n / (2 * pieces)][n / 2 % pieces][n % 2][i] = half.of[i];
    }
  }

 private:
  using Sum = std::remove_all_extents_t<Sums>;
  static constexpr int numbers = int(sizeof(Sums) / 2 / sizeof(Sum));
  struct alignas(16) Half {
    Sum of[numbers];
  };
  static_assert(sizeof(Half) == 16 && Memory::halves == 2 * row_tiles * pieces);
};

}  // namespace annulus::kernels::cuda
