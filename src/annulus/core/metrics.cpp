#include "annulus/core/metrics.hpp"

#include <time.h>

namespace annulus::core {
namespace {

double clock_seconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
}

}  // namespace

double wall_seconds() { return clock_seconds(CLOCK_MONOTONIC); }
double cpu_seconds() { return clock_seconds(CLOCK_PROCESS_CPUTIME_ID); }

}  // namespace annulus::core
