// Measures the peak rate of multiply-adds. x86 processors have two pipes for multiply-adds, with a latency of 4 to 5
// cycles. Twelve independent accumulators keep both busy. The instruction for pairs of bfloat16 has a latency of up to
// 8 cycles, so its loop uses 24 accumulators.
#include <Kokkos_Core.hpp>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include <time.h>

#include <algorithm>

#include "annulus/core/amx.hpp"
#include "annulus/core/instruction_set.hpp"
#include "annulus/kernels/host/amx/tile_configuration.hpp"
#include "annulus/kernels/multiply_add_peak.hpp"

namespace annulus::kernels {
namespace {

using core::InstructionSet;

/// Returns the CPU seconds that the calling thread has used.
double thread_cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

// Defines a function that runs a loop of multiply-adds. The function returns a sum over its accumulators, so that the
// compiler does not remove the accumulators.
#define ANNULUS_PEAK(NAME, TARGET, VECTOR, FMA)                               \
  TARGET double NAME(long rounds) {                                           \
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
ANNULUS_PEAK(avx512_float, __attribute__((target("avx512f"))), __m512, _mm512_fmadd_ps(sum[i], x, y))
ANNULUS_PEAK(avx512_double, __attribute__((target("avx512f"))), __m512d, _mm512_fmadd_pd(sum[i], x, y))
ANNULUS_PEAK(avx2_float, __attribute__((target("avx2,fma"))), __m256, _mm256_fmadd_ps(sum[i], x, y))
ANNULUS_PEAK(avx2_double, __attribute__((target("avx2,fma"))), __m256d, _mm256_fmadd_pd(sum[i], x, y))
#endif
#if defined(__x86_64__)
__attribute__((target("avx512f,avx512bf16"))) double avx512_pairs(long rounds) {
  __m512 sum[24];
  const __m512 x = __m512{} + 0.5f;
  _Pragma("GCC unroll 24") for (int i = 0; i < 24; ++i) sum[i] = __m512{} + float(i);
  for (long n = 0; n < rounds; ++n) {
    _Pragma("GCC unroll 24") for (int i = 0; i < 24; ++i) asm("vdpbf16ps %1, %1, %0" : "+v"(sum[i]) : "v"(x));
  }
  double total = 0;
  _Pragma("GCC unroll 24") for (int i = 0; i < 24; ++i) total += double(sum[i][0]);
  return total;
}
#endif
typedef float FourFloats __attribute__((vector_size(16)));
typedef double TwoDoubles __attribute__((vector_size(16)));
#if defined(__aarch64__)
ANNULUS_PEAK(baseline_float, , FourFloats, vfmaq_f32(y, sum[i], x))
ANNULUS_PEAK(baseline_double, , TwoDoubles, vfmaq_f64(y, sum[i], x))
#else
ANNULUS_PEAK(baseline_float, , FourFloats, sum[i] * x + y)
ANNULUS_PEAK(baseline_double, , TwoDoubles, sum[i] * x + y)
#endif
#undef ANNULUS_PEAK

#if defined(ANNULUS_HAS_AMX_TILES)
/// Uses four accumulators in turn. It loads no operands, because the time does not depend on the numbers.
__attribute__((target("amx-tile"))) double amx_pairs(long rounds) {
  asm volatile("ldtilecfg %0" ::"m"(host::full_tiles));
  for (long n = 0; n < rounds; ++n) {
    asm volatile(
        "tdpbf16ps %%tmm6, %%tmm4, %%tmm0\n\ttdpbf16ps %%tmm7, %%tmm4, %%tmm1\n\t"
        "tdpbf16ps %%tmm6, %%tmm5, %%tmm2\n\ttdpbf16ps %%tmm7, %%tmm5, %%tmm3" ::
            : "memory");
  }
  asm volatile("tilerelease" ::: "memory");
  return 0;
}
#endif

struct Loop {
  double (*run)(long rounds);
  int lanes;
  int flop = 2 * 12 * lanes;  // per round
  long rounds = 1000000;
};
/// Returns the loop for a set and a precision. For products of bfloat16 this is the loop for float if the set has no
/// instruction for pairs, because kernels then use two multiply-adds of floats for each pair.
Loop loop_of(InstructionSet set, core::Precision precision) {
  const bool wide = precision == core::Precision::float64;
#if defined(ANNULUS_HAS_AMX_TILES)
  const bool on_matrix_unit = precision == core::Precision::bfloat16 || core::is_split(precision);
  if (set == InstructionSet::amx && on_matrix_unit && core::has_amx())
    return Loop{amx_pairs, 16, 4 * 2 * 16 * 16 * 32, 40000};
#endif
  set = core::vectors_beside(set);
#if defined(__x86_64__)
  if (set == InstructionSet::avx512_bf16 && precision == core::Precision::bfloat16)
    return Loop{avx512_pairs, 16, 4 * 24 * 16};
  if (set >= InstructionSet::avx512) return wide ? Loop{avx512_double, 8} : Loop{avx512_float, 16};
  if (set == InstructionSet::avx2) return wide ? Loop{avx2_double, 4} : Loop{avx2_float, 8};
#endif
  (void)set;
  return wide ? Loop{baseline_double, 2} : Loop{baseline_float, 4};
}

/// Returns the peak rate of the calling thread in GFLOP per CPU second: the best of three short runs.
double peak_of_thread(const Loop& loop) {
  const long rounds = loop.rounds;
  const double gflop = 1e-9 * loop.flop * double(rounds);
  double best = 0;
  for (int repeat = 0; repeat < 3; ++repeat) {
    const double start = thread_cpu_seconds();
    volatile double keep = loop.run(rounds);
    (void)keep;
    best = std::max(best, gflop / (thread_cpu_seconds() - start));
  }
  return best;
}

}  // namespace

double multiply_add_peak(core::Precision precision) {
  using Space = Kokkos::DefaultHostExecutionSpace;
  const Loop loop = loop_of(core::best_instruction_set(), precision);
  const int threads = int(Space().concurrency());
  double sum = 0;
  Kokkos::parallel_reduce(
      "annulus::multiply_add_peak", Kokkos::RangePolicy<Space>(0, threads).set_chunk_size(1),
      [&](const int, double& total) { total += peak_of_thread(loop); }, sum);
  return sum / threads;
}

}  // namespace annulus::kernels
