// The machine's peak of VDPBF16PS with this many threads: two products of bfloat16 numbers are added to each of
// the 16 float32 sums of a vector. Prints "0 0" where the processor has no such instruction.
//
//   g++ -O3 -march=native -pthread peak_bfloat16.cpp -o peak && ./peak [threads] [seconds]     see peak.hpp
#include "peak.hpp"

#if defined(__AVX512BF16__)
#include <immintrin.h>

// Independent chains: enough to fill two pipes of latency 6 to 8; with the two operands they fit 32 registers.
constexpr int chains = 20;
constexpr long steps = 500000;

float multiply_add(float factor, float term) {
  const __m512bh a = _mm512_cvtne2ps_pbh(_mm512_set1_ps(factor), _mm512_set1_ps(-factor));
  const __m512bh b = _mm512_cvtne2ps_pbh(_mm512_set1_ps(term), _mm512_set1_ps(term));
  __m512 chain[chains];
  for (int c = 0; c < chains; ++c) chain[c] = _mm512_set1_ps(term * float(c));
  for (long step = 0; step < steps; ++step) {
#pragma GCC unroll 32
    for (int c = 0; c < chains; ++c) chain[c] = _mm512_dpbf16_ps(chain[c], a, b);
  }
  float sum = 0;
  for (const __m512& one : chain) sum += one[0];
  return sum;
}

int main(int argc, char** argv) { return print_peak(argc, argv, 2.0 * 2 * 16 * chains * steps, multiply_add); }
#else
int main() { return std::puts("0 0") < 0; }
#endif
