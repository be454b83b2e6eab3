// Which instruction set is used, and by what name users know it.
#include "annulus/core/instruction_set.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace annulus::core {
namespace {

TEST(InstructionSets, NamesLeadBack) {
  for (const InstructionSet set : all_instruction_sets) {
    EXPECT_EQ(instruction_set_called(name_of(set)), set);
  }
  EXPECT_FALSE(instruction_set_called("sse9"));
  EXPECT_FALSE(instruction_set_called(""));
}

TEST(InstructionSets, ALimitIsKeptAndNoPromise) {
  const std::vector<InstructionSet> usable = usable_instruction_sets();
  EXPECT_EQ(best_instruction_set(), std::min(usable.back(), preferred_limit()));
  limit_instruction_set(InstructionSet::baseline);
  EXPECT_EQ(best_instruction_set(), InstructionSet::baseline);
  EXPECT_EQ(usable_instruction_sets(), usable) << "tests may still ask for each";
  limit_instruction_set(InstructionSet::avx512_bf16);
  EXPECT_EQ(best_instruction_set(), usable.back()) << "a limit gives no processor what it lacks";
}

}  // namespace
}  // namespace annulus::core
