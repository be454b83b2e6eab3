// Scores with a cap and a bias on the host against the definition, on every instruction set this machine has.
#include "kernels/host_backward_case.hpp"
#include "kernels/rule_case.hpp"
#include "kernels/statistics_case.hpp"

namespace annulus::test {
namespace {

using core::Band;
using core::Precision;
using kernels::ScoreRule;

TEST(HostRules, PiecesOfSeveralRunsInEveryType) {
  const Band bands[] = {Band::all, Band::upto, Band{40, 25}};
  std::size_t turn = 0;
  for (const auto& [type, precision] : types_and_precisions()) {
    for (const auto& [name, rule] : all_rules()) {
      const Band& band = bands[(turn + turn / 9) % 3];  // a rule gets another band for each type
      ++turn;
      expect_both_passes(with_rule(awkward_backward_case(24, type, precision, band), rule),
                         name + ", " + name_of(band));
    }
  }
}

TEST(HostRules, RowsAndKeysAroundTheBlocks) {
  for (const Index n : {1, 2, 13, 95, 97, 130}) {
    for (const auto& [name, rule] : all_rules()) {
      BackwardCase test = backward_case(n, n + n % 5, 20, Band::upto);
      test.fill_all(4);
      expect_both_passes(with_rule(test, rule), fmt::format("{} rows, {}", n, name));
    }
  }
}

TEST(HostRules, LongRowsCrossTilesChunksAndTasks) {
  for (const Precision precision : {Precision::float32, Precision::float64}) {
    for (const auto& [band, rule] : {std::pair(Band::upto, ScoreRule{3, {0.004}, 5}),
                                     {Band{900, 700}, ScoreRule{0, {0.01}, 2, grid_of(2100, true)}}}) {
      BackwardCase test = backward_case(1009, 1009, 64, band);
      test.type = core::type_of(precision);
      test.precision = precision;
      test.fill_all();
      expect_both_passes(with_rule(test, rule), name_of(band));
    }
  }
}

TEST(HostRules, TheDefinitionIsTheDerivativeOfTheForwardPass) {
  for (const auto& [name, rule] : all_rules()) {
    SCOPED_TRACE(name);
    BackwardCase test = with_rule(backward_case(7, 9, 5, Band::upto), rule);
    test.type = DType::float64;
    test.fill_all();
    expect_derivatives(test);
  }
}

TEST(HostRules, StatisticsAreOfChangedScores) {
  for (const auto& [name, rule] : all_rules()) {
    for (const Precision precision : {Precision::float32, Precision::float64}) {
      const WorkCase plain = statistics_case(24, Band::upto, core::type_of(precision), precision);
      WorkCase test = with_rule(plain, rule);
      const std::vector<double> lse = naive_answer(test).lse;
      const StatisticsAnswer expected = naive_statistics(test, lse, 6);
      for (const InstructionSet set : kernels::host::usable_instruction_sets()) {
        SCOPED_TRACE(name + " " + std::string(name_of(set)));
        const auto attend = [&](const auto& list, const auto& operands, const auto& views) {
          kernels::host::host_attend_statistics(list, test.shape, test.query_rows, test.precision, operands, views, {},
                                                set);
        };
        StatisticsAnswer found = made_statistics(test, lse, 6, attend);
        for (Index& row : found.rows)
          if (row >= 0) row = (row - 5) / 2;  // from a row of the sequence to the comb index that `expected` has
        expect_close(found, expected, core::forward_tolerance(test.type));
      }
    }
  }
}

// Scores far beyond the cap, infinite scores, and hidden keys: the cap must not give hidden keys a weight.
TEST(HostRules, ACapOfLargeScoresAndHiddenKeys) {
  BackwardCase test = with_rule(backward_case(60, 60, 16, Band::upto), {30});
  test.fill_all(1e4);
  const kernels::ReferenceResult expected = naive_answer(test);
  for (const InstructionSet set : kernels::host::usable_instruction_sets()) {
    const kernels::ReferenceResult actual = host_answer(test, set);
    EXPECT_TRUE(close_to(actual.out, expected.out, 1e-5)) << name_of(set);
    EXPECT_TRUE(close_to(actual.lse, expected.lse, 1e-5)) << name_of(set);
  }
  for (double& x : test.q) x *= 1e34;
  for (const InstructionSet set : kernels::host::usable_instruction_sets()) {
    const kernels::ReferenceResult actual = host_answer(test, set);
    for (const double lse : actual.lse) EXPECT_TRUE(lse >= -30.001 && lse <= 30 + std::log(60)) << name_of(set);
  }
}

// A score's bits depend only on its query row and its key row, not on where keys and rows are cut.
TEST(HostRules, TheSameBitsHoweverRowsAreCut) {
  for (const auto& [name, rule] : all_rules()) {
    BackwardCase whole = with_rule(backward_case(130, 130, 24, Band::all), rule);
    whole.fill_all();
    BackwardCase cut = whole;
    core::WorkList list = whole.calls[0];
    list.runs = {{0, 0, 1, 50}, {50, 50, 1, 80}, {0, 0, 1, 33}, {33, 33, 1, 97}};
    const core::WorkItem item = list.items[0];
    cut.calls.clear();
    for (const Index keys : {3, 2}) {  // the last keys first
      core::WorkList part{list.runs, {item, item}};
      for (std::size_t i = 0; i < 2; ++i) {
        part.items[i].query = {Index(i), 1, list.runs[i].count};
        part.items[i].key = {keys, 1, list.runs[std::size_t(keys)].count};
      }
      cut.calls.push_back(part);
    }
    for (const InstructionSet set : kernels::host::usable_instruction_sets()) {
      SCOPED_TRACE(name + " " + std::string(name_of(set)));
      const kernels::ReferenceResult expected = host_answer(whole, set), actual = host_answer(cut, set);
      EXPECT_EQ(actual.out, expected.out);
      EXPECT_EQ(actual.lse, expected.lse);
    }
  }
}

TEST(HostRules, SlopesOfAlibi) {
  const std::vector<double> six{0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125};
  EXPECT_EQ(kernels::alibi_slopes(6), six);
  EXPECT_EQ(kernels::alibi_slopes(1), (std::vector<double>{1.0 / 256}));
  EXPECT_EQ(kernels::alibi_slopes(8).front(), 0.5);
  EXPECT_EQ(kernels::alibi_slopes(8).back(), 1.0 / 256);
  EXPECT_EQ(kernels::alibi_slopes(12).size(), 12u);
  EXPECT_DOUBLE_EQ(kernels::alibi_slopes(12)[8], std::exp2(-0.5));
}

TEST(HostRules, CoordinatesAsWholeNumbers) {
  const kernels::Coordinates some({-3, 7, 5, 9.5});
  EXPECT_EQ(some.extent(), 8);
  const double unit = some.unit(30);
  EXPECT_EQ(double(some.whole(1, 0, unit) - some.whole(0, 0, unit)) * unit, 8);
  EXPECT_EQ(double(some.whole(1, 1, unit) - some.whole(0, 1, unit)) * unit, 2.5);
  EXPECT_LE(some.whole(1, 0, unit), std::int64_t(1) << 30);
  const kernels::Coordinates far({1e9, 1e9, -3, 7, 5, 9.5, -1e9, 0, 0, 1e9}, {{1, 3}});  // rows 0, 3 and 4 do not count
  EXPECT_EQ(far.extent(), 8);
  EXPECT_EQ(far.numbers(), (std::vector<double>{-3, 7, -3, 7, 5, 9.5, -3, 7, -3, 7}));
  const kernels::Coordinates same({4, 4, 4, 4});
  EXPECT_EQ(same.whole(1, 1, same.unit(30)), 0);
}

TEST(HostRules, LibrariesRefuseThemByName) {
  WorkCase test = with_rule(plain_case(3, 3, 8, false), {5});
  test.fill();
  const DeviceTensor q = to_device(test.q, test.type, 3, 1, 8);
  kernels::State state(test.shape, 3, test.precision);
  try {
    kernels::attend(kernels::Backend::cudnn, test.calls[0], {q.view, q.view, q.view, 1, test.call_rule()}, state);
    FAIL() << "cudnn computed a cap";
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("back end cudnn takes no scores with a cap"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace annulus::test
