// Measures the machine's multiply-add peak in float32 with the given number of threads.
//
//   g++ -O3 -march=native -pthread peak.cpp -o peak && ./peak [threads] [seconds]     see peak.hpp
#include "peak.hpp"

#if defined(__AVX512F__)
constexpr int width = 16;
#elif defined(__AVX__)
constexpr int width = 8;
#else
constexpr int width = 4;
#endif
using Vector = float __attribute__((vector_size(4 * width)));

// Independent chains: enough to fill two pipes of latency 4 to 5, few enough for 16 registers.
constexpr int chains = 12;
constexpr long steps = 1000000;

/// In each step, each chain takes one vector multiply-add: chain = chain * factor + term.
float multiply_add(float factor, float term) {
  const Vector a = Vector{} + factor, b = Vector{} + term;
  Vector chain[chains];
  for (int c = 0; c < chains; ++c) chain[c] = b * float(c);
  for (long step = 0; step < steps; ++step) {
#pragma GCC unroll 16
    for (int c = 0; c < chains; ++c) chain[c] = chain[c] * a + b;
  }
  float sum = 0;
  for (const Vector& one : chain) sum += one[0];
  return sum;
}

int main(int argc, char** argv) { return print_peak(argc, argv, 2.0 * width * chains * steps, multiply_add); }
