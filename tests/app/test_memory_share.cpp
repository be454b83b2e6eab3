// Memory limits that a batch system (Slurm) gives in environment variables.
#include "annulus/app/job/machine.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

namespace annulus::app {
namespace {

constexpr core::Index mib = 1024 * 1024;

std::vector<core::MemoryBound> bounds(const char* node, const char* cpu, const char* cpus) {
  const auto set = [](const char* name, const char* value) {
    value != nullptr ? setenv(name, value, 1) : unsetenv(name);
  };
  set("SLURM_MEM_PER_NODE", node);
  set("SLURM_MEM_PER_CPU", cpu);
  set("SLURM_CPUS_PER_TASK", cpus);
  return batch_bounds(mib);
}

TEST(MemoryShare, WholeMebibytesOfSlurm) {
  ASSERT_EQ(bounds("100", nullptr, nullptr).size(), 1u);
  EXPECT_EQ(bounds("100", nullptr, nullptr)[0].free, 100 * mib);
  EXPECT_EQ(bounds(nullptr, "100", "3").at(0).free, 299 * mib);
  EXPECT_EQ(bounds(nullptr, "100", nullptr).at(0).free, 99 * mib);
  EXPECT_TRUE(bounds(nullptr, nullptr, "3").empty());
}

// A value that is not a whole number sets no limit: the digits at its beginning are not used either.
TEST(MemoryShare, WordsThatAreNoNumberBoundNothing) {
  for (const char* word : {"100G", "1e3", "0x10", "0", "-5", "", " 8", "1.5", "99999999999999999999"}) {
    EXPECT_TRUE(bounds(word, nullptr, nullptr).empty()) << word;
    EXPECT_TRUE(bounds(nullptr, word, "2").empty()) << word;
    EXPECT_EQ(bounds(nullptr, "100", word).at(0).free, 99 * mib) << word;
  }
}

TEST(MemoryShare, SomeOfAGpuIsLeft) {
  EXPECT_EQ(plannable_gpu_memory(160 * mib), 150 * mib);
  EXPECT_EQ(plannable_gpu_memory(80000 * mib), (80000 - 512) * mib);
  EXPECT_EQ(plannable_gpu_memory(0), 0);
}

}  // namespace
}  // namespace annulus::app
