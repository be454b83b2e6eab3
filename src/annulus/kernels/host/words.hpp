// Panels hold rows that were packed for the tiles. They consist of words. A word is one number, or two bfloat16 numbers
// that one instruction multiplies. This header has plain data only, because files with different compiler flags include
// it (tile_functions.hpp).
#pragma once

#include <cstdint>

namespace annulus::kernels::host {

/// Two numbers of bfloat16: x = (x0, x1). x0 is in the low half of `bits`, called the even half, x1 in the high half,
/// called the odd half. The product of x and y is added to c as the instruction VDPBF16PS adds it:
///   c + x * y = fma(x0, y0, fma(x1, y1, c))       the ODD product first, with all denormal numbers taken as 0
/// So a sum takes one product after another, as in float. The number whose product is to be added first must be in the
/// odd half. At the end of a panel one half of a pair may be zero; its product changes no bit of the sum.
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
