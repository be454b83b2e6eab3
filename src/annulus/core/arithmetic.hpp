// Our threads use the default rounding mode and keep denormal numbers, whatever the calling program has set.
//
// A thread inherits both settings from the thread that started it. In a program linked with -ffast-math, or after
// PyTorch's set_flush_denormal(True), our threads would turn denormal numbers into 0; after fesetround() our threads
// would round in another direction. The same call would then give different bits in different programs.
#pragma once

#include <cfenv>

namespace annulus::core {

/// While an object lives, the calling thread rounds to nearest, keeps denormal numbers and traps no exception. The
/// destructor restores the thread's own settings and exception flags.
class DefaultArithmetic {
 public:
  DefaultArithmetic();
  ~DefaultArithmetic();
  DefaultArithmetic(const DefaultArithmetic&) = delete;
  DefaultArithmetic& operator=(const DefaultArithmetic&) = delete;

 private:
  std::fenv_t callers_;
};

/// Does what DefaultArithmetic does, in all threads that run host kernels, and in the calling thread. Only one object
/// may exist at a time.
class DefaultArithmeticOnHost {
 public:
  DefaultArithmeticOnHost();
  ~DefaultArithmeticOnHost();
  DefaultArithmeticOnHost(const DefaultArithmeticOnHost&) = delete;
  DefaultArithmeticOnHost& operator=(const DefaultArithmeticOnHost&) = delete;

 private:
  const DefaultArithmetic calling_;  // without Kokkos no pool contains the calling thread
};

}  // namespace annulus::core
