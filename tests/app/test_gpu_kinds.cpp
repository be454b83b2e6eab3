// other_kinds() names two ranks whose GPUs are of different kinds.
#include <gtest/gtest.h>

#include "annulus/app/job/machine.hpp"

namespace annulus::app {
namespace {

using Kinds = std::vector<std::string>;

TEST(GpuKinds, NamesTheFirstTwoThatDiffer) {
  EXPECT_EQ(other_kinds(Kinds{"sm_90", "sm_90", "sm_90", "sm_80", "sm_75"}), "rank 0 has sm_90, rank 3 sm_80");
  EXPECT_EQ(other_kinds(Kinds{"", "sm_80", "", "sm_90"}), "rank 1 has sm_80, rank 3 sm_90");
}

TEST(GpuKinds, AreAlikeWhereNoTwoDiffer) {
  for (const Kinds& kinds : {Kinds{}, Kinds{""}, Kinds{"", ""}, Kinds{"sm_90"}, Kinds{"sm_90", "", "sm_90"}})
    EXPECT_EQ(other_kinds(kinds), "");
}

}  // namespace
}  // namespace annulus::app
