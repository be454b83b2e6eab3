// Which instruction set is used, and by what name users know it.
#include "annulus/core/instruction_set.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "annulus/core/amx.hpp"

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
  const auto last_up_to = [&](InstructionSet most) {
    return *std::find_if(usable.rbegin(), usable.rend(), [&](InstructionSet set) { return set <= most; });
  };
  EXPECT_EQ(best_instruction_set(), last_up_to(preferred_limit()));
  limit_instruction_set(InstructionSet::baseline);
  EXPECT_EQ(best_instruction_set(), InstructionSet::baseline);
  EXPECT_EQ(usable_instruction_sets(), usable) << "tests may still ask for each";
  limit_instruction_set(InstructionSet::avx512_bf16);
  EXPECT_EQ(best_instruction_set(), last_up_to(InstructionSet::avx512_bf16)) << "it gives no processor what it lacks";
  limit_instruction_set(InstructionSet::amx);
  EXPECT_EQ(best_instruction_set(), InstructionSet::amx) << "vectors can do it, too";
}

TEST(InstructionSets, MatrixUnitsAreTakenWhereTheyAreAndHaveVectorsBesideThem) {
  EXPECT_EQ(preferred_limit() == InstructionSet::amx, has_amx());
  EXPECT_EQ(has_amx(), why_no_amx().empty());
  EXPECT_TRUE(processor_has_amx() || !has_amx());
  EXPECT_EQ(vectors_beside(InstructionSet::avx2), InstructionSet::avx2);
  const std::vector<InstructionSet> usable = usable_instruction_sets();
  EXPECT_EQ(usable.back(), InstructionSet::amx);
  EXPECT_EQ(std::count(usable.begin(), usable.end() - 1, vectors_beside(InstructionSet::amx)), 1);
  limit_instruction_set(InstructionSet::avx512_bf16);
  EXPECT_FALSE(has_matrix_units()) << "they may not be used";
  limit_instruction_set(InstructionSet::amx);
  EXPECT_EQ(has_matrix_units(), has_amx()) << "vectors may take their place";
  limit_instruction_set(preferred_limit());
}

}  // namespace
}  // namespace annulus::core
