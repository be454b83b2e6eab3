// The limit of the number of threads.
#include <gtest/gtest.h>

#include <mutex>
#include <set>
#include <thread>

#include "annulus/annulus.hpp"
#include "annulus/core/kokkos_compat.hpp"

namespace annulus::test {
namespace {

/// Returns how many threads run a loop such as that of reference(), and checks that they visit each index once.
int threads_of_a_loop() {
  std::mutex mutex;
  std::set<std::thread::id> threads;
  std::multiset<Index> seen;
  core::for_each_on_host("test", 3, 20, [&](const Index i) {
    const std::lock_guard<std::mutex> lock(mutex);
    threads.insert(std::this_thread::get_id());
    seen.insert(i);
  });
  std::multiset<Index> expected;
  for (Index i = 3; i < 20; ++i) expected.insert(i);
  EXPECT_EQ(seen, expected);
  return int(threads.size());
}

TEST(LibraryThreads, LimitIsThatOfReferencesLoopToo) {
  const int all = threads();
  EXPECT_EQ(threads_of_a_loop(), all);
  limit_threads(1);
  EXPECT_EQ(threads(), 1);
  EXPECT_EQ(threads_of_a_loop(), 1);
  limit_threads(most_threads);
  EXPECT_EQ(threads_of_a_loop(), all);
}

}  // namespace
}  // namespace annulus::test
