// Rounding and denormal numbers of the threads that compute for a caller whose own settings may be others.
//
// A thread inherits them from the thread that started it: a program linked with -ffast-math, or PyTorch's
// set_flush_denormal(True), would make our threads turn denormal numbers into 0, and fesetround() would make them round
// in another direction. Results would have other bits than those of another caller.
#pragma once

#include <cfenv>

namespace annulus::core {

/// While it lives the calling thread rounds to nearest, keeps denormal numbers and traps no exception; afterwards it
/// has its own settings and exception flags again.
class DefaultArithmetic {
 public:
  DefaultArithmetic();
  ~DefaultArithmetic();
  DefaultArithmetic(const DefaultArithmetic&) = delete;
  DefaultArithmetic& operator=(const DefaultArithmetic&) = delete;

 private:
  std::fenv_t callers_;
};

/// The same of all threads on which kernels of the host run, the calling one among them. One at a time.
class DefaultArithmeticOnHost {
 public:
  DefaultArithmeticOnHost();
  ~DefaultArithmeticOnHost();
  DefaultArithmeticOnHost(const DefaultArithmeticOnHost&) = delete;
  DefaultArithmeticOnHost& operator=(const DefaultArithmeticOnHost&) = delete;

 private:
  const DefaultArithmetic calling_;  // also where Kokkos was not started
};

}  // namespace annulus::core
