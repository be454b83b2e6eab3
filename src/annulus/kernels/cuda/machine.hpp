// The functions that block programs (ForwardBlock, BackwardBlock) call. To them, a machine is one thread of a block:
//   GpuMachine    kernels/cuda/mma.hpp, the only file with PTX: a thread of a GPU
//   TwinMachine   tests/kernels/twin.hpp: a fibre on a host, so that fragments, masks, row maps and the order of sums
//                 are tested without a GPU
// Shared memory is addressed by byte offsets from the start of the block's shared memory (Shared). A machine has
//   thread(), barrier()
//   load<T>(at), store(at, x)                     one value in shared memory
//   copy_16(to, from, inside)                     copies 16 bytes from global memory, or writes zeros if `inside` is
//                                                 false; the bytes are there after wait()
//   commit(), wait()                              ends a group of copies; waits for all groups of this thread
//   load_matrices(at), load_transposed(at)        four 8 x 8 matrices of 16-bit numbers; lane l gives the address of
//                                                 row l % 8 of matrix l / 8 (ldmatrix)
//   multiply_16<Stored>(c, a, b0, b1)             16 x 8 += 16 x 16 times 16 x 8 of 16-bit numbers, sums in float32
//   multiply_tf32(c, a, b0, b1)                   16 x 8 += 16 x 8 times 8 x 8 of TF32, sums in float32
//   multiply_64(c, a, b)                          8 x 8 += 8 x 4 times 4 x 8 of float64
//   pack<Stored>(low, high)                       two floats, rounded to the nearest 16-bit numbers, in one word; `low`
//                                                 is in the lower half
//   round_tf32(x)                                 a float rounded to nearest with 10 bits of mantissa; NaN stays NaN
//   exp2(x), larger(x, y)                         2^x; the larger number, or if one number is NaN, the other number
//   from_lane_xor(x, mask), any(flag)             x of lane (lane ^ mask); true if a lane of the warp has the flag
// All 32 lanes of a warp must call load_matrices(), load_transposed(), multiply_...(), from_lane_xor() and any()
// together.
#pragma once

#include <cstdint>

#include "annulus/kernels/device/unroll.hpp"

namespace annulus::kernels::cuda {

/// Bytes from the start of a block's shared memory.
using Shared = std::uint32_t;

/// A lane's 32 bits of each of four 8 x 8 matrices, or of the four parts of a 16 x 16 matrix.
struct Words4 {
  std::uint32_t of[4];
};

inline constexpr int warp_size = 32;

}  // namespace annulus::kernels::cuda
