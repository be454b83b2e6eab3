// main() of tests on several MPI ranks. Every rank runs every test; the launch fails if any rank fails.
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdio>
#include <memory>
#include <string>

#include "annulus/comm/runtime.hpp"
#include "support/leak_check.hpp"

namespace {

int world_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

// Rank 0 has GoogleTest's printer. Other ranks only print failures, with their rank.
class RankPrinter : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo& test) override {
    test_ = std::string(test.test_suite_name()) + "." + test.name();
  }
  void OnTestPartResult(const testing::TestPartResult& part) override {
    if (!part.failed()) return;
    std::fprintf(stderr, "[rank %d] %s failed at %s:%d\n%s\n", world_rank(), test_.c_str(),
                 part.file_name() ? part.file_name() : "unknown file", part.line_number(), part.summary());
    std::fflush(stderr);
  }
  // Stored here, because to ask UnitTest for the current test inside OnTestPartResult would deadlock.
  std::string test_ = "set-up";
};

// A failed ASSERT_* or an exception ends the test on this rank only. Other ranks would wait for this rank in their next
// collective until the time limit. So this listener ends the launch, unless there is a single rank only.
class AbortOnFatalFailure : public testing::EmptyTestEventListener {
  void OnTestPartResult(const testing::TestPartResult& part) override {
    int ranks = 1;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (!part.fatally_failed() || ranks == 1) return;
    std::fprintf(stderr, "[rank %d] fatal failure or exception: ending all ranks\n", world_rank());
    std::fflush(nullptr);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
};

int run_tests(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  if (world_rank() != 0) {
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new RankPrinter);
  }
  listeners.Append(new AbortOnFatalFailure);

  int failed = RUN_ALL_TESTS();
  if (!GTEST_FLAG_GET(list_tests) && testing::UnitTest::GetInstance()->test_to_run_count() == 0) {
    if (world_rank() == 0) std::fprintf(stderr, "no test was selected: an empty run proves nothing\n");
    failed = 1;
  }
  int failed_anywhere = 1;
  MPI_Allreduce(&failed, &failed_anywhere, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  return failed_anywhere;
}

std::unique_ptr<annulus::comm::Runtime> start_mpi_and_kokkos(int& argc, char**& argv) {
  const annulus::test::LeaksExcused excused;
  return std::make_unique<annulus::comm::Runtime>(argc, argv);
}

}  // namespace

#if defined(__SANITIZE_ADDRESS__)
// MPI unloads plug-ins also during tests, and then their leaks would look like our own. So this function keeps plug-ins
// loaded, and their leaks have the names that lsan.supp lists.
extern "C" int dlclose(void*) { return 0; }
#endif

int main(int argc, char** argv) {
  const auto runtime = start_mpi_and_kokkos(argc, argv);
  const int failed = run_tests(argc, argv);
  annulus::test::check_for_leaks();
  return failed;
}
