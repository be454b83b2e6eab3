// Code of the programs that measure a peak: the loop of one thread, and the start of all threads.
#pragma once

#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

inline double now(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

struct Work {
  double flops = 0, cpu = 0;
};

/// Calls run(factor, term), which does the given number of flops, for the given CPU seconds.
template <class Run>
Work work_for(double seconds, double flops, const Run& run) {
  // Volatile: read and written anew for every call, so that the compiler neither folds the work nor does it only once.
  volatile float factor = 0.5f, term = 0.25f;
  Work work;
  const double start = now(CLOCK_THREAD_CPUTIME_ID);
  do {
    term = run(factor, term) > 0 ? 0.25f : 0.125f;
    work.flops += flops;
    work.cpu = now(CLOCK_THREAD_CPUTIME_ID) - start;
  } while (work.cpu < seconds);
  return work;
}

/// main() of a program called with [threads, default 1] [seconds, default 0.2]: prints GFLOP per CPU second (the mean
/// over the threads) and GFLOP per second of wall time.
template <class Run>
int print_peak(int argc, char** argv, double flops, const Run& run) {
  const int threads = argc > 1 ? std::max(1, std::atoi(argv[1])) : 1;
  const double seconds = argc > 2 ? std::atof(argv[2]) : 0.2;
  std::vector<Work> works{std::size_t(threads)};
  std::vector<std::thread> running;
  const double start = now(CLOCK_MONOTONIC);
  for (Work& work : works) running.emplace_back([&] { work = work_for(seconds, flops, run); });
  for (std::thread& thread : running) thread.join();
  const double wall = now(CLOCK_MONOTONIC) - start;
  Work sum;
  for (const Work& work : works) sum = {sum.flops + work.flops, sum.cpu + work.cpu};
  std::printf("%.3f %.3f\n", 1e-9 * sum.flops / sum.cpu, 1e-9 * sum.flops / wall);
  return 0;
}
