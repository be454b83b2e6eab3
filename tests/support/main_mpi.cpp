// main() of tests launched on several MPI ranks. Every rank runs every test; the launch fails when any rank fails.
#include <gtest/gtest.h>
#include <mpi.h>

#include <Kokkos_Core.hpp>
#include <cstdio>

namespace {

int world_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

// Rank 0 keeps GoogleTest's printer. The others speak only when something fails, and then say who they are.
class RankPrinter : public testing::EmptyTestEventListener {
  void OnTestPartResult(const testing::TestPartResult& part) override {
    if (!part.failed()) return;
    const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
    std::fprintf(stderr, "[rank %d] %s.%s failed at %s:%d\n%s\n", world_rank(), test ? test->test_suite_name() : "-",
                 test ? test->name() : "set-up", part.file_name() ? part.file_name() : "unknown file",
                 part.line_number(), part.summary());
    std::fflush(stderr);
  }
};

// A failed ASSERT_* or an exception ends the test on this rank only; the others would wait for it in their next
// collective until the time limit. So it ends the launch. (Inside one rank there is nobody to hang.)
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
  Kokkos::ScopeGuard kokkos(argc, argv);
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

}  // namespace

int main(int argc, char** argv) {
  // MPI before Kokkos and after it; FUNNELED: only the main thread calls MPI.
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  if (provided < MPI_THREAD_FUNNELED) {
    std::fprintf(stderr, "this MPI grants no MPI_THREAD_FUNNELED\n");
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  const int failed = run_tests(argc, argv);
  MPI_Finalize();
  return failed;
}
