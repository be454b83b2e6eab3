// The machine's multiply-add peak with so many threads at once: prints GFLOP per CPU second (the mean over the threads)
// and GFLOP per second of wall time.
//
//   g++ -O3 -march=native -pthread peak.cpp -o peak && ./peak [threads, default 1] [seconds, default 0.2]
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

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

double now(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

/// chain = chain * factor + term: one vector multiply-add each.
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

struct Work {
  double flops = 0, cpu = 0;
};

Work work_for(double seconds) {
  // Volatile: read and written anew for every call, so that the compiler neither folds the work nor does it only once.
  volatile float factor = 0.5f, term = 0.25f;
  Work work;
  const double start = now(CLOCK_THREAD_CPUTIME_ID);
  do {
    term = multiply_add(factor, term) > 0 ? 0.25f : 0.125f;
    work.flops += 2.0 * width * chains * steps;
    work.cpu = now(CLOCK_THREAD_CPUTIME_ID) - start;
  } while (work.cpu < seconds);
  return work;
}

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::max(1, std::atoi(argv[1])) : 1;
  const double seconds = argc > 2 ? std::atof(argv[2]) : 0.2;
  std::vector<Work> works{std::size_t(threads)};
  std::vector<std::thread> running;
  const double start = now(CLOCK_MONOTONIC);
  for (Work& work : works) running.emplace_back([&work, seconds] { work = work_for(seconds); });
  for (std::thread& thread : running) thread.join();
  const double wall = now(CLOCK_MONOTONIC) - start;
  Work sum;
  for (const Work& work : works) sum = {sum.flops + work.flops, sum.cpu + work.cpu};
  std::printf("%.3f %.3f\n", 1e-9 * sum.flops / sum.cpu, 1e-9 * sum.flops / wall);
  return 0;
}
