#include "annulus/core/normals.hpp"

#include "annulus/core/storage.hpp"

namespace annulus::core {
namespace {

// The functions below are inlined into one function per instruction set. In these functions make_chunk() becomes vector
// code, because its loops have a fixed length. The arrays stay in the first-level cache.
#define ALWAYS_INLINE inline __attribute__((always_inline))
constexpr int chunk_pairs = 64, chunk_numbers = 2 * chunk_pairs;

/// Makes the numbers first ... first + chunk_numbers - 1; first is a multiple of chunk_numbers.
ALWAYS_INLINE void make_chunk(const Normals& normals, Index first, float* numbers) {
  const Words key = words_of(normals.seed), counter = counter_of(normals.tensor, first / 2);
  std::uint32_t low[chunk_pairs], high[chunk_pairs];
  for (int i = 0; i < chunk_pairs; ++i) {
    const Words words = threefry(key, {counter.low + std::uint32_t(i), counter.high});  // no carry inside a chunk
    low[i] = words.low;
    high[i] = words.high;
  }
  for (int i = 0; i < chunk_pairs; ++i) {
    const NormalPair pair = box_muller({low[i], high[i]});
    numbers[2 * i] = pair.even;
    numbers[2 * i + 1] = pair.odd;
  }
}

template <class Stored>
ALWAYS_INLINE void fill_as(const Normals& normals, Interval numbers, Stored* to) {
  for (Index first = numbers.begin / chunk_numbers * chunk_numbers; first < numbers.end; first += chunk_numbers) {
    float chunk[chunk_numbers];
    make_chunk(normals, first, chunk);
    const Interval part = intersect(numbers, {first, first + chunk_numbers});
    const Index count = part.size(), skipped = part.begin - first;
    for (Index i = 0; i < count; ++i) store_as(to[i], normals.scale * chunk[skipped + i]);
    to += count;
  }
}

ALWAYS_INLINE void fill(const Normals& normals, Interval numbers, void* to) {
  switch (normals.type) {
    case DType::float64:
      return fill_as(normals, numbers, static_cast<double*>(to));
    case DType::float32:
      return fill_as(normals, numbers, static_cast<float*>(to));
    case DType::float16:
      return fill_as(normals, numbers, static_cast<Half*>(to));
    case DType::bfloat16:
      return fill_as(normals, numbers, static_cast<BFloat16*>(to));
  }
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) void fill_avx2(const Normals& normals, Interval numbers, void* to) {
  fill(normals, numbers, to);
}
__attribute__((target("avx512f,avx512dq,avx512bw,avx512vl"))) void fill_avx512(const Normals& normals, Interval numbers,
                                                                               void* to) {
  fill(normals, numbers, to);
}
#endif

}  // namespace

void fill_normals(const Normals& normals, Interval numbers, void* to, InstructionSet set) {
#if defined(__x86_64__)
  set = vectors_beside(set);
  if (set >= InstructionSet::avx512) return fill_avx512(normals, numbers, to);
  if (set == InstructionSet::avx2) return fill_avx2(normals, numbers, to);
#endif
  (void)set;
  fill(normals, numbers, to);
}

}  // namespace annulus::core
