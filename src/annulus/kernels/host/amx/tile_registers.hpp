// The matrix unit. It has eight tile registers of 16 rows of 64 bytes, and adds the product of two registers to a
// third. One of two classes TileRegisters is compiled: one uses Intel's AMX, the other uses vectors. Both have the same
// results, bit for bit.
//
// TDPBF16PS computes C += A B. A has 16 rows of 16 words, B has 16 words of 16 columns; a word is two numbers of
// bfloat16. To c = C[m][n] it adds the 32 products of A[m][k] and B[k][n], k = 0 ... 15, as two chains of
// multiply-adds that start from +0, one for the even halves and one for the odd halves:
//   c + (even + odd)      rounded to nearest even; denormal numbers are 0, as operands and as results
// The vectors' results were compared with the instruction's on 48 million numbers. All were equal, but NaN may have
// other bits. The instruction ignores the modes of MXCSR; for the vectors the caller makes denormals 0
// (DenormalsAreZero).
#pragma once

#include "annulus/kernels/host/amx/tile_configuration.hpp"
#include "annulus/kernels/host/pairs.hpp"

namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET {

/// Rows of a tile, and words of each row.
constexpr int kTileRows = 16;
/// Words (or float numbers) of a tile.
constexpr int kTileWords = kTileRows * kTileRows;
/// How many terms a product adds to each sum: 32 keys, or 32 numbers of a row.
constexpr int kProductDepth = 32;
/// How many vectors 16 floats take.
constexpr int kTileVectors = kTileRows / kLanes<float>;

#if defined(ANNULUS_HAS_AMX)

/// The calling thread's registers. While this object lives they are configured as whole tiles. The destructor releases
/// them, because otherwise every context switch and every signal would save them.
class TileRegisters {
 public:
  ANNULUS_INLINE_MEMBER TileRegisters() { asm volatile("ldtilecfg %0" ::"m"(full_tiles)); }
  ANNULUS_INLINE_MEMBER ~TileRegisters() { asm volatile("tilerelease" ::: "memory"); }
  TileRegisters(const TileRegisters&) = delete;
  TileRegisters& operator=(const TileRegisters&) = delete;

  // Each statement names "memory", because the compiler does not know which memory the statement reads or writes (GCC
  // 12 does not know this of its own intrinsics either), and because the order in the source is the schedule and must
  // stay.
  template <int t>
  ANNULUS_INLINE_MEMBER void zero() {
    asm volatile("tilezero %%tmm%c0" ::"i"(t) : "memory");
  }
  /// Rows are `stride` bytes apart; with a stride of 0 all rows are the same memory.
  template <int t>
  ANNULUS_INLINE_MEMBER void load(const void* from, long stride = 64) {
    asm volatile("tileloadd (%1,%2,1), %%tmm%c0" ::"i"(t), "r"(from), "r"(stride) : "memory");
  }
  /// Like load(), for data that is read only once: a hint asks not to displace other data from the first-level cache.
  template <int t>
  ANNULUS_INLINE_MEMBER void stream(const void* from, long stride = 64) {
    asm volatile("tileloaddt1 (%1,%2,1), %%tmm%c0" ::"i"(t), "r"(from), "r"(stride) : "memory");
  }
  template <int t>
  ANNULUS_INLINE_MEMBER void store(void* to, long stride = 64) {
    asm volatile("tilestored %%tmm%c0, (%1,%2,1)" ::"i"(t), "r"(to), "r"(stride) : "memory");
  }
  /// C += A B
  template <int c, int a, int b>
  ANNULUS_INLINE_MEMBER void multiply() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(c), "i"(a), "i"(b) : "memory");
  }
};

#endif

/// a * b + c, rounded once on every processor.
ANNULUS_INLINE Floats fused(Floats a, Floats b, Floats c) {
#if defined(__FMA__) || defined(__aarch64__)
  return fma(a, b, c);
#else
  for (int i = 0; i < kLanes<float>; ++i) c[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return c;
#endif
}

/// a * b - c, rounded once.
ANNULUS_INLINE Floats fused_minus(Floats a, Floats b, Floats c) {
#if defined(__AVX512F__)
  return _mm512_fmsub_ps(a, b, c);
#else
  return fused(a, b, -c);
#endif
}

// Vector work is inlined between the products only in code for the matrix unit. Where vectors compute the products,
// this would gain nothing, and the files would take minutes to compile.
#if defined(ANNULUS_HAS_AMX)
#define ANNULUS_INLINE_BESIDE ANNULUS_INLINE
#define ANNULUS_MEMBER_BESIDE ANNULUS_INLINE_MEMBER
#else
#define ANNULUS_INLINE_BESIDE __attribute__((noinline)) static
#define ANNULUS_MEMBER_BESIDE __attribute__((noinline))
#endif

#if !defined(ANNULUS_HAS_AMX)

/// 16 rows of 16 words.
using Tile = std::uint32_t[kTileRows][kTileRows];

/// C += A B
__attribute__((noinline)) static void add_tile_product(const Tile& a, const Tile& b, Tile& c) {
  constexpr int n = kLanes<float>;
  for (int row = 0; row < kTileRows; ++row) {
    Floats even[kTileVectors] = {}, odd[kTileVectors] = {};
    for (int k = 0; k < kTileRows; ++k) {
      const Pairs number = broadcast(BFloat16Pair{a[row][k]});
      for (int v = 0; v < kTileVectors; ++v) {
        const Pairs column = load<Pairs>(b[k] + v * n);
        even[v] = fused(even_halves(number), even_halves(column), even[v]);
        odd[v] = fused(odd_halves(number), odd_halves(column), odd[v]);
      }
    }
    for (int v = 0; v < kTileVectors; ++v) store(c[row] + v * n, load<Floats>(c[row] + v * n) + (even[v] + odd[v]));
  }
}

__attribute__((noinline)) static void load_tile(Tile& tile, const void* from, long stride) {
  for (int row = 0; row < kTileRows; ++row)
    __builtin_memcpy(tile[row], static_cast<const char*>(from) + row * stride, sizeof tile[row]);
}
__attribute__((noinline)) static void store_tile(const Tile& tile, void* to, long stride) {
  for (int row = 0; row < kTileRows; ++row)
    __builtin_memcpy(static_cast<char*>(to) + row * stride, tile[row], sizeof tile[row]);
}

class TileRegisters {
 public:
  ANNULUS_INLINE_MEMBER TileRegisters() {}
  TileRegisters(const TileRegisters&) = delete;
  TileRegisters& operator=(const TileRegisters&) = delete;

  template <int t>
  ANNULUS_INLINE_MEMBER void zero() {
    __builtin_memset(words_[t], 0, sizeof words_[t]);
  }
  template <int t>
  ANNULUS_INLINE_MEMBER void load(const void* from, long stride = 64) {
    load_tile(words_[t], from, stride);
  }
  template <int t>
  ANNULUS_INLINE_MEMBER void stream(const void* from, long stride = 64) {
    load<t>(from, stride);
  }
  template <int t>
  ANNULUS_INLINE_MEMBER void store(void* to, long stride = 64) const {
    store_tile(words_[t], to, stride);
  }
  template <int c, int a, int b>
  ANNULUS_INLINE_MEMBER void multiply() {
    add_tile_product(words_[a], words_[b], words_[c]);
  }

 private:
  alignas(64) Tile words_[8];
};

#endif

/// Calls f<0>(), ..., f<kCount - 1>() of a lambda, in this order. A loop cannot replace this, because register numbers
/// must be known at compile time.
template <int kCount, int i = 0, class F>
ANNULUS_INLINE void times(const F& f) {
  if constexpr (i < kCount) {
    f.template operator()<i>();
    times<kCount, i + 1>(f);
  }
}

}  // namespace annulus::kernels::host::ANNULUS_INSTRUCTION_SET
