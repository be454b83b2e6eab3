// main() of tests that need no MPI: GoogleTest with Kokkos running.
#include <gtest/gtest.h>

#include <Kokkos_Core.hpp>
#include <cstdio>

#include "support/leak_check.hpp"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  Kokkos::ScopeGuard kokkos(argc, argv);
  const int failed = RUN_ALL_TESTS();
  const auto& all = *testing::UnitTest::GetInstance();
  if (!GTEST_FLAG_GET(list_tests) && all.test_to_run_count() == 0) {
    std::fprintf(stderr, "no test was selected: an empty run proves nothing\n");
    return 1;
  }
  annulus::test::check_for_leaks();
  return failed;
}
