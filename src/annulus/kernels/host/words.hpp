// Panels (packed rows) consist of words. A word is one number, or two bfloat16 numbers that one instruction multiplies.
// This header has plain data only, because files with different compiler flags include it (tile_functions.hpp).
#pragma once

#include <cstdint>

namespace annulus::kernels::host {

/// Two numbers of bfloat16. The low half of `bits` is called the even half, the high half the odd one, because
/// successive numbers lie like this in memory. The product of x = (x0, x1) and y = (y0, y1) is added to c as VDPBF16PS
/// does it:
///   c + x * y = fma(x0, y0, fma(x1, y1, c))       the ODD products first, all denormal numbers taken as 0
/// So the number to be added first is in the odd half, and a sum takes one number after another, as in float. At the
/// end of a panel one half of a pair may be zero, which changes no bit.
struct BFloat16Pair {
  std::uint32_t bits;
};

/// The type of the scores, weights, sums and accumulators that are computed from words W.
template <class W>
struct NumberFor {
  using Type = W;
};
template <>
struct NumberFor<BFloat16Pair> {
  using Type = float;
};
template <class W>
using Number = typename NumberFor<W>::Type;

/// How many numbers a word has.
template <class W>
inline constexpr int kPerWord = 1;
template <>
inline constexpr int kPerWord<BFloat16Pair> = 2;

}  // namespace annulus::kernels::host
