// Products of words, c += a * b, for numbers and for pairs of bfloat16 (words.hpp), and rounding of floats to pairs.
//
// If the set has no instruction for pairs, two multiply-adds replace it. In float, products of two bfloat16 numbers are
// exact, unless they lie outside the range of normal numbers. So a multiply-add that rounds twice gives the same result
// as a fused one. The instruction treats denormal numbers as 0. Tiles of pairs switch the processor to a mode in which
// multiply-adds do the same (DenormalsAreZero).
#pragma once

#include "annulus/kernels/host/convert.hpp"
#include "annulus/kernels/host/simd.hpp"

namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET {

/// Return the halves of pairs as floats.
ANNULUS_INLINE Floats odd_halves(Pairs x) { return bits_as<Floats>(x & 0xffff0000u); }
ANNULUS_INLINE Floats even_halves(Pairs x) { return bits_as<Floats>(x << 16); }

/// c += a * b for words T.
template <class T>
ANNULUS_INLINE void multiply_add(Vec<Number<T>>& c, Vec<T> a, Vec<T> b) {
  if constexpr (kPerWord<T> == 1) {
    accumulate(c, a, b);
  } else {
#if defined(__AVX512BF16__)
    asm("vdpbf16ps %2, %1, %0" : "+v"(c) : "v"(a), "v"(b));
#else
    accumulate(c, odd_halves(a), odd_halves(b));
    accumulate(c, even_halves(a), even_halves(b));
#endif
  }
}

/// c += a * b for one number of each word. For pairs, i = 0 means the odd halves, which multiply_add() adds first, and
/// i = 1 the even halves.
template <class T>
ANNULUS_INLINE void multiply_add_one(Vec<Number<T>>& c, Vec<T> a, Vec<T> b, int i) {
  if constexpr (kPerWord<T> == 1)
    accumulate(c, a, b);
  else if (i == 0)
    accumulate(c, odd_halves(a), odd_halves(b));
  else
    accumulate(c, even_halves(a), even_halves(b));
}

/// Checks whether all numbers of the words given to take() are finite. For finite x, x - x is 0; for other x it is NaN.
template <class T>
struct FiniteCheck {
  using Bits = Vec<UnsignedOf<Number<T>>>;
  Bits differences = {};

  ANNULUS_INLINE_MEMBER void take(Vec<T> words) {
    if constexpr (kPerWord<T> == 1) {
      differences |= bits_as<Bits>(words - words);
    } else {
      differences |= bits_as<Bits>(odd_halves(words) - odd_halves(words));
      differences |= bits_as<Bits>(even_halves(words) - even_halves(words));
    }
  }
  ANNULUS_INLINE_MEMBER bool holds() const {
    for (int i = 0; i < kLanes<Number<T>>; ++i)
      if (differences[i] != 0) return false;
    return true;
  }
};

/// Two vectors of floats, `high` and `low`, rounded to bfloat16, ties to even. pairs() puts one number of each into a
/// word; the number of `high` is in the odd half. `rows` has all numbers of `low`, then those of `high`.
struct Rounded {
#if defined(__AVX512BF16__)
  using Rows = Pack<std::uint16_t, 2 * kLanes<float>>;
  Rows rows;

  ANNULUS_INLINE_MEMBER Rounded(Floats high, Floats low) {
    asm("vcvtne2ps2bf16 %2, %1, %0" : "=v"(rows) : "v"(high), "v"(low));
  }
  ANNULUS_INLINE_MEMBER Pairs pairs() const {
    typedef std::uint16_t Order __attribute__((vector_size(64)));
    const Order order = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                         8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    return bits_as<Pairs>(_mm512_permutexvar_epi16(bits_as<__m512i>(order), bits_as<__m512i>(rows)));
  }
  ANNULUS_INLINE_MEMBER void store_rows(std::uint16_t* high, std::uint16_t* low) const {
    store_unaligned(low, _mm512_castsi512_si256(bits_as<__m512i>(rows)));
    store_unaligned(high, _mm512_extracti64x4_epi64(bits_as<__m512i>(rows), 1));
  }
#else
  Floats high, low;

  ANNULUS_INLINE_MEMBER Rounded(Floats high, Floats low) : high(high), low(low) {}
  ANNULUS_INLINE_MEMBER Pairs pairs() const {
    return (rounded_bits<kLanes<float>>(high) & 0xffff0000u) | rounded_bits<kLanes<float>>(low) >> 16;
  }
  ANNULUS_INLINE_MEMBER void store_rows(std::uint16_t* to_high, std::uint16_t* to_low) const {
    constexpr const BFloat16Bits* bfloat16 = nullptr;
    store_unaligned(to_high, narrow<kLanes<float>>(high, bfloat16));
    store_unaligned(to_low, narrow<kLanes<float>>(low, bfloat16));
  }
#endif
};

/// Makes words of weights. x has the one or two weights of each word; products add x[0] first.
template <class T>
ANNULUS_INLINE Vec<T> words_of(const Vec<Number<T>> (&x)[kPerWord<T>]) {
  if constexpr (kPerWord<T> == 1)
    return x[0];
  else
    return Rounded(x[0], x[1]).pairs();
}

/// Returns words_of(x), and replaces x by the rounded weights, so that the caller adds these to a row's l. If a row
/// sees only one key, this key then gets exactly weight 1, because the rounded 2^(score - m) is divided by itself.
template <class T>
ANNULUS_INLINE Vec<T> round_to_words(Vec<Number<T>> (&x)[kPerWord<T>]) {
  const Vec<T> words = words_of<T>(x);
  if constexpr (kPerWord < T >> 1) {
    x[0] = odd_halves(words);
    x[1] = even_halves(words);
  }
  return words;
}

/// While this object lives, the calling thread treats denormal numbers as 0, as operands and as results, as the
/// instruction for pairs always does. Nothing happens if `enabled` is false, or on processors other than x86-64 and
/// 64-bit Arm.
class DenormalsAreZero {
 public:
  ANNULUS_INLINE_MEMBER explicit DenormalsAreZero(bool enabled) : enabled_(enabled) {
    if (!enabled_) return;
    before_ = control();
#if defined(__x86_64__)
    set_control(before_ | 0x8040);  // flush to zero, denormals are zero
#elif defined(__aarch64__)
    set_control(before_ | std::uint64_t(1) << 24);  // flush to zero
#endif
  }
  ANNULUS_INLINE_MEMBER ~DenormalsAreZero() {
    if (enabled_) set_control(before_);
  }
  DenormalsAreZero(const DenormalsAreZero&) = delete;
  DenormalsAreZero& operator=(const DenormalsAreZero&) = delete;

 private:
#if defined(__aarch64__)
  using Control = std::uint64_t;
  ANNULUS_INLINE_MEMBER static Control control() {
    Control x;
    asm volatile("mrs %0, fpcr" : "=r"(x)::"memory");
    return x;
  }
  ANNULUS_INLINE_MEMBER static void set_control(Control x) { asm volatile("msr fpcr, %0" ::"r"(x) : "memory"); }
#elif defined(__x86_64__)
  using Control = std::uint32_t;
  ANNULUS_INLINE_MEMBER static Control control() {
    Control x;
    asm volatile("stmxcsr %0" : "=m"(x)::"memory");
    return x;
  }
  ANNULUS_INLINE_MEMBER static void set_control(Control x) { asm volatile("ldmxcsr %0" ::"m"(x) : "memory"); }
#else
  using Control = int;
  ANNULUS_INLINE_MEMBER static Control control() { return 0; }
  ANNULUS_INLINE_MEMBER static void set_control(Control) {}
#endif
  bool enabled_;
  Control before_ = 0;
};

}  // namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET
