#include "annulus/core/arithmetic.hpp"

#include <memory>

#include "annulus/core/kokkos_compat.hpp"

namespace annulus::core {
namespace {

/// The DefaultArithmetic of this thread of Kokkos' pool while a DefaultArithmeticOnHost lives; null at other times.
std::unique_ptr<const DefaultArithmetic>& of_this_thread() {
  thread_local std::unique_ptr<const DefaultArithmetic> kept;
  return kept;
}

/// Calls body() at least once in each thread of the pool.
template <class Body>
void in_every_thread(const char* label, const Body& body) {
  using Space = Kokkos::DefaultHostExecutionSpace;
  if (!Kokkos::is_initialized()) return;
  const int threads = int(Space().concurrency());
  Kokkos::parallel_for(label, Kokkos::RangePolicy<Space>(0, threads).set_chunk_size(1), [&](const int) { body(); });
  Space().fence();
}

}  // namespace

// The default environment of the C library follows IEEE 754. On x86 and Arm this environment also switches off flushing
// to zero.
DefaultArithmetic::DefaultArithmetic() {
  std::fegetenv(&callers_);
  std::fesetenv(FE_DFL_ENV);
}
DefaultArithmetic::~DefaultArithmetic() { std::fesetenv(&callers_); }

DefaultArithmeticOnHost::DefaultArithmeticOnHost() {
  in_every_thread("annulus::default_arithmetic", [] {
    if (!of_this_thread()) of_this_thread() = std::make_unique<const DefaultArithmetic>();
  });
}
DefaultArithmeticOnHost::~DefaultArithmeticOnHost() {
  in_every_thread("annulus::callers_arithmetic", [] { of_this_thread().reset(); });
}

}  // namespace annulus::core
