// Panels consist of words. A word is one number, or two bfloat16 numbers that one instruction multiplies.
//
// Plain data, for the reasons in tile_functions.hpp.
#pragma once

#include <cstdint>

namespace annulus::kernels::host {

/// Two numbers of bfloat16 as they lie in memory: the even one in the low half, the odd one in the high half. With
/// x = (x0, x1) and y = (y0, y1)
///   c + x * y = fma(x0, y0, fma(x1, y1, c))       the ODD products first, all denormal numbers taken as 0,
/// as VDPBF16PS does it. So the number to be added first is in the odd half, and sums take one number after another, as
/// in float. At the end of a panel one half of a pair may be zero, which changes no bit.
struct BFloat16Pair {
  std::uint32_t bits;
};

/// Type of scores, weights, sums and accumulators that belongs to words W.
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
