// What the processor can multiply and add at most, measured: the number that kernels are held against.
#pragma once

#include <ctime>
#include <string_view>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace annulus::benchmarks {

inline double cpu_seconds() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

/// Of the calling thread alone.
inline double thread_cpu_seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

/// Multiply-adds of 12 independent accumulators, enough to fill every pipe of known processors; returns their sum, so
/// that they are not optimised away. `fma(a, b, c)` is one instruction.
#define ANNULUS_PEAK(NAME, TARGET, VECTOR, FMA)                               \
  TARGET inline double NAME(long rounds) {                                    \
    VECTOR sum[12], x = VECTOR{} + 0.999f, y = VECTOR{} + 0.001f;             \
    for (int i = 0; i < 12; ++i) sum[i] = VECTOR{} + float(i);                \
    for (long n = 0; n < rounds; ++n) {                                       \
      _Pragma("GCC unroll 12") for (int i = 0; i < 12; ++i) { sum[i] = FMA; } \
    }                                                                         \
    double total = 0;                                                         \
    for (int i = 0; i < 12; ++i) total += double(sum[i][0]);                  \
    return total;                                                             \
  }
#if defined(__x86_64__)
ANNULUS_PEAK(peak_avx512_float, __attribute__((target("avx512f"))), __m512, _mm512_fmadd_ps(sum[i], x, y))
ANNULUS_PEAK(peak_avx512_double, __attribute__((target("avx512f"))), __m512d, _mm512_fmadd_pd(sum[i], x, y))
ANNULUS_PEAK(peak_avx2_float, __attribute__((target("avx2,fma"))), __m256, _mm256_fmadd_ps(sum[i], x, y))
ANNULUS_PEAK(peak_avx2_double, __attribute__((target("avx2,fma"))), __m256d, _mm256_fmadd_pd(sum[i], x, y))
#endif
typedef float FourFloats __attribute__((vector_size(16)));
typedef double TwoDoubles __attribute__((vector_size(16)));
ANNULUS_PEAK(peak_plain_float, , FourFloats, sum[i] * x + y)
ANNULUS_PEAK(peak_plain_double, , TwoDoubles, sum[i] * x + y)
#undef ANNULUS_PEAK

/// GFLOP per CPU-second of the calling thread with the vectors of `set` (kernels::host_instruction_set()).
inline double multiply_add_peak(std::string_view set, bool wide) {
  auto* loop = wide ? peak_plain_double : peak_plain_float;
  int lanes = wide ? 2 : 4;
#if defined(__x86_64__)
  if (set == "avx2") loop = wide ? peak_avx2_double : peak_avx2_float;
  if (set == "avx512") loop = wide ? peak_avx512_double : peak_avx512_float;
  lanes *= set == "avx512" ? 4 : set == "avx2" ? 2 : 1;
#endif
  constexpr long rounds = 1000000;
  double best = 0;
  for (int repeat = 0; repeat < 3; ++repeat) {
    const double start = thread_cpu_seconds();
    volatile double keep = loop(rounds);
    (void)keep;
    const double flops = 2.0 * 12 * lanes * double(rounds);
    best = flops / (thread_cpu_seconds() - start) > best ? flops / (thread_cpu_seconds() - start) : best;
  }
  return best * 1e-9;
}

}  // namespace annulus::benchmarks
