// What no kept pair reads stays out of results on the host, on every instruction set this machine has.
#include "kernels/host_backward_case.hpp"
#include "kernels/unseen_case.hpp"

namespace annulus::test {
namespace {

using core::Band;
using core::Precision;

std::string describe(const WorkCase& test, InstructionSet set) {
  return fmt::format("{}, {} in {}, D {}", name_of(set), core::name_of(test.type), name_of(test.precision),
                     test.shape.head_dim);
}

TEST(HostUnseen, RowsOfKeysAndValues) {
  for (const auto& [type, precision] : types_and_precisions()) {
    for (const InstructionSet set : kernels::host::usable_instruction_sets()) {
      for (const Index D : {1, 5, 72}) {
        const WorkCase test = awkward_case(D, type, precision, true);
        expect_unseen_stay_out(test, describe(test, set), [&](const WorkCase& one) { return host_answer(one, set); });
      }
    }
  }
}

TEST(HostUnseen, LaterRowsOfManyTiles) {
  for (const InstructionSet set : kernels::host::usable_instruction_sets()) {
    for (const auto& [type, precision] : types_and_precisions()) {
      WorkCase test = plain_case(450, 450, 64, true);
      test.type = type;
      test.precision = precision;
      test.fill();
      const kernels::ReferenceResult before = host_answer(test, set);
      std::fill(test.v.begin() + 203 * 64, test.v.end(), std::nan(""));
      const kernels::ReferenceResult now = host_answer(test, set);
      EXPECT_TRUE(has_same_bits(now.out.data(), before.out.data(), 203 * 64)) << describe(test, set);
      EXPECT_TRUE(std::isnan(now.out[203 * 64])) << describe(test, set);
      EXPECT_EQ(now.lse, before.lse) << describe(test, set);
    }
  }
}

TEST(HostUnseen, RowsOfEveryOperandOfTheBackwardPass) {
  for (const auto& [type, precision] : types_and_precisions()) {
    for (const InstructionSet set : kernels::host::usable_instruction_sets()) {
      for (const auto& [D, mask] : {std::pair<Index, Band>{5, Band::upto}, {24, Band::after}}) {
        const BackwardCase test = awkward_backward_case(D, type, precision, mask);
        const kernels::ReferenceResult forward = stored_forward(test);
        expect_unseen_stay_out_of_gradients(
            test, describe(test, set), [&](const BackwardCase& one) { return host_gradients(one, forward, {set}); });
      }
    }
  }
}

TEST(HostUnseen, RowsAndTheirNormalizersInStatistics) {
  for (const auto& [type, precision] : types_and_precisions()) {
    for (const InstructionSet set : kernels::host::usable_instruction_sets()) {
      const WorkCase test = statistics_case(24, Band::upto, type, precision);
      expect_unseen_stay_out_of_statistics(
          test, describe(test, set), [&](const WorkCase& one, const std::vector<double>& lse) {
            return made_statistics(one, lse, 3, [&](const auto& list, const auto& operands, const auto& views) {
              kernels::host::host_attend_statistics(list, one.shape, one.query_rows, one.precision, operands, views, {},
                                                    set);
            });
          });
    }
  }
}

}  // namespace
}  // namespace annulus::test
