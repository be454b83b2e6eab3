// Kokkos is not started here, as in a build for GPUs on a node without a GPU.
#include <gtest/gtest.h>

#include <Kokkos_Core.hpp>
#include <numeric>

#include "annulus/core/buffer.hpp"
#include "annulus/core/error.hpp"
#include "annulus/core/kokkos_compat.hpp"
#include "annulus/core/memory.hpp"

namespace annulus::core {
namespace {

TEST(WithoutKokkos, BuffersAreHostMemory) {
  ASSERT_FALSE(Kokkos::is_initialized());
  EXPECT_TRUE(device_is_host());
  std::vector<int> numbers(1000), back(1000, -1);
  std::iota(numbers.begin(), numbers.end(), 7);
  {
    const Buffer buffer("numbers", 4000);
    EXPECT_EQ(memory_ledger().current(), 4000);
    copy_to_device(buffer.data(), numbers.data(), 4000);
    copy_to_host(back.data(), buffer.data(), 4000);
    EXPECT_EQ(back, numbers);
    fill_zero(buffer.data(), 4000);
    copy_to_host(back.data(), buffer.data(), 4000);
    EXPECT_EQ(back, std::vector<int>(1000, 0));
  }
  EXPECT_EQ(memory_ledger().current(), 0);
}

TEST(WithoutKokkos, LoopsOnTheHostGoThroughEveryIndexOnce) {
  EXPECT_EQ(host_threads(), 1);
  std::vector<int> seen(20, 0);
  for_each_on_host("test", 3, 17, [&](const Index i) { ++seen[std::size_t(i)]; });
  std::vector<int> expected(20, 0);
  std::fill(expected.begin() + 3, expected.begin() + 17, 1);
  EXPECT_EQ(seen, expected);
}

TEST(WithoutKokkos, KernelsAreRefused) {
  try {
    require_device();
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::failure);
    EXPECT_NE(std::string(error.what()).find("verify and --dry-run work here"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace annulus::core

int main(int argc, char** argv) {  // in other tests main() starts Kokkos
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
