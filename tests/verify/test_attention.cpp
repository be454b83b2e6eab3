// Errors of every kind are planted into a right result. `verify` finds each error in its dataset and at its index, and
// finds no other dataset wrong.
#include <gtest/gtest.h>

#include "annulus/core/tolerance.hpp"
#include "verify/verify_case.hpp"

namespace annulus::verify {
namespace {

strategies::Problem problem(bool causal) {
  strategies::Problem problem;
  problem.shape = {2, 37, 4, 2, 6};
  if (causal) problem.shape.set_value_dim(4);
  problem.type = core::DType::float64;
  problem.precision = core::Precision::float64;
  problem.scale = 0.4;
  problem.pattern.pairs = {
      {8, 1}, {pattern::whole_document, 3}, {pattern::whole_document, 1, pattern::Window{3, 2, 2}}};
  problem.pattern.causal = causal;
  problem.documents = {0, 37};
  problem.gradients = true;
  problem.statistics = {.entropy = true, .received = true, .top_keys = 3};
  return problem;
}

const std::vector<std::string> tensors{"out", "lse", "entropy", "top_weights", "dq", "dk", "dv", "received"};

class VerifyAttention : public testing::TestWithParam<bool> {
 protected:
  VerifyAttention() : case_(problem(GetParam())), right_(case_.make()) {}

  Findings verify(const MadeResult& made) const { return case_.verify(made, comm_, case_.shape().sequence); }
  /// Expects that only this dataset is found wrong after `spoil` has changed it.
  void expect_found(const std::string& name, const std::string& what, const std::function<void(Made&)>& spoil) const {
    SCOPED_TRACE(name + ", " + what);
    MadeResult made = right_;
    spoil(made.at(name));
    ASSERT_NE(made.at(name).values, right_.at(name).values) << "nothing was planted";
    EXPECT_EQ(wrong_of(name, verify(made)), std::vector<std::string>{name});
  }
  /// verify judges lists by their weights. So if top_weights is wrong, it may find top_rows wrong, too.
  static std::vector<std::string> wrong_of(const std::string& name, const Findings& findings) {
    std::vector<std::string> names = wrong(findings);
    if (name == "top_weights") std::erase(names, "top_rows");
    return names;
  }
  /// Swaps the `count` numbers from a on with the `count` numbers from b on.
  static void swap(Made& made, Index a, Index b, Index count) {
    std::swap_ranges(made.values.begin() + a, made.values.begin() + a + count, made.values.begin() + b);
  }

  const comm::Communicator comm_{MPI_COMM_WORLD};
  const VerifyCase case_;
  const MadeResult right_;
};

INSTANTIATE_TEST_SUITE_P(Patterns, VerifyAttention, testing::Bool(),
                         [](const auto& info) { return info.param ? "Causal" : "BothWays"; });

TEST_P(VerifyAttention, FindsNothingInARightResult) {
  const Findings found = verify(right_);
  EXPECT_EQ(wrong(found), std::vector<std::string>());
  EXPECT_TRUE(found.good());
  EXPECT_EQ(found.verdicts.size(), tensors.size() + 1) << "and top_rows";
  for (const Verdict& verdict : found.verdicts) EXPECT_LE(verdict.tolerance, 1e-11) << verdict.name;
}

TEST_P(VerifyAttention, AllowsTheToleranceOfItsTypeAndNoMore) {
  for (const Verdict& verdict : verify(right_).verdicts) {
    const bool gradient = verdict.name[0] == 'd';
    EXPECT_EQ(verdict.tolerance,
              gradient ? core::gradient_tolerance(core::DType::float64) : core::forward_tolerance(core::DType::float64))
        << verdict.name;
  }
}

TEST_P(VerifyAttention, AllowsTheToleranceOfProducts) {
  strategies::Problem made = problem(GetParam());
  const auto expect = [&](core::Precision precision, core::DType type, double forward, double gradients) {
    made.precision = precision;
    made.type = type;
    const VerifyCase one(made);
    for (const Verdict& verdict : one.verify(one.make(), comm_, one.shape().sequence).verdicts) {
      const bool is_statistic = verdict.name != "out" && verdict.name != "lse" && verdict.name[0] != 'd';
      if (is_statistic) continue;  // their tolerance does not depend on the type of the tensors
      EXPECT_EQ(verdict.tolerance, verdict.name[0] == 'd' ? gradients : forward)
          << verdict.name << ", " << core::name_of(precision) << " of " << core::name_of(type);
    }
  };
  expect(core::Precision::three_bfloat16, core::DType::float32, 1e-4, 3e-4);
  expect(core::Precision::six_bfloat16, core::DType::float32, 1e-5, 3e-5);
  expect(core::Precision::three_bfloat16, core::DType::float16, 3e-3, 3e-3);
}

/// A result of q, k and v that were rounded to float16. TF32 has as many bits of mantissa as float16, so products of
/// tf32 may be as wrong.
TEST_P(VerifyAttention, AllowsWhatRoundingChangesInLargeScores) {
  strategies::Problem exact = problem(GetParam());
  exact.scale = 60;
  exact.type = core::DType::float32;
  exact.precision = core::Precision::tf32;
  strategies::Problem rounded = exact;
  rounded.type = core::DType::float16;
  const VerifyCase one(exact);
  MadeResult made = VerifyCase(rounded).make();
  for (const char* const name : {"out", "top_weights"}) {
    double largest = 0;
    const MadeResult right = one.make();
    for (std::size_t i = 0; i < right.at(name).values.size(); ++i)
      largest = std::max(largest, std::abs(made.at(name).values[i] - right.at(name).values[i]));
    EXPECT_GT(largest, core::forward_tolerance(core::Precision::tf32)) << name << ": nothing is tested";
  }
  const Index rows = one.shape().sequence;
  EXPECT_EQ(wrong(one.verify(made, comm_, rows)), std::vector<std::string>());
  for (const char* const name : {"out", "dk", "received"}) made.at(name).values[5] += 1e4;
  EXPECT_EQ(wrong(one.verify(made, comm_, rows)), (std::vector<std::string>{"out", "dk", "received"}));
}

/// Each row sees only itself, so dP = delta, and dq and dk are 0. If `out` is rounded to float16, delta is not dP.
TEST_P(VerifyAttention, MeasuresErrorsOfGradientsByTheirTerms) {
  strategies::Problem alone = problem(GetParam());
  alone.pattern.pairs = {{1, 1}};
  alone.scale = 40;
  alone.type = core::DType::float16;
  alone.precision = core::Precision::float32;
  const VerifyCase one(alone, 1, false);
  const MadeResult right = one.make();
  ASSERT_LT(std::abs(right.at("dq").values[9]), 1e-9);
  for (const auto& [error, names] :
       {std::pair(0.02, std::vector<std::string>()), {40.0, std::vector<std::string>{"dq", "dk"}}}) {
    MadeResult made = right;
    for (const char* const name : {"dq", "dk"}) made.at(name).values[9] += error;
    EXPECT_EQ(wrong(one.verify(made, comm_, one.shape().sequence)), names) << error;
  }
}

TEST_P(VerifyAttention, FindsOneNumberWhereItIs) {
  const Index b = 1, x = 22, h = 1;
  for (const std::string& name : tensors) {
    for (const double error : {1e-8, -1e-8, std::nan(""), std::numeric_limits<double>::infinity()}) {
      SCOPED_TRACE(name + fmt::format(", {}", error));
      MadeResult made = right_;
      Made& tensor = made.at(name);
      const Index last = tensor.numbers - 1;
      tensor.values[std::size_t(case_.at(tensor, b, x, h, last))] += error;
      const Findings found = verify(made);
      EXPECT_EQ(wrong_of(name, found), std::vector<std::string>{name});
      const std::string at = tensor.numbers > 1 ? fmt::format("[1, 22, 1, {}]", last) : "[1, 22, 1]";
      EXPECT_EQ(verdict_on(found, name).deviation.where, at);
    }
  }
}

TEST_P(VerifyAttention, FindsRowsHeadsAndEntriesThatAreZeroOrInEachOthersPlace) {
  for (const std::string& name : tensors) {
    const Index row = right_.at(name).heads * right_.at(name).numbers, head = right_.at(name).numbers;
    const auto at = [&](Index b, Index x, Index h) { return case_.at(right_.at(name), b, x, h, 0); };
    expect_found(name, "a row of zeros", [&](Made& made) { std::fill_n(made.values.begin() + at(1, 30, 0), row, 0); });
    expect_found(name, "a head of zeros", [&](Made& made) {
      for (Index x = 0; x < case_.shape().sequence; ++x) std::fill_n(made.values.begin() + at(0, x, 1), head, 0);
    });
    expect_found(name, "rows swapped", [&](Made& made) { swap(made, at(0, 13, 0), at(0, 14, 0), row); });
    expect_found(name, "heads swapped", [&](Made& made) {
      for (Index x = 0; x < case_.shape().sequence; ++x) swap(made, at(0, x, 0), at(0, x, 1), head);
    });
    expect_found(name, "entries swapped",
                 [&](Made& made) { swap(made, 0, at(1, 0, 0), case_.shape().sequence * row); });
    expect_found(name, "the sign", [&](Made& made) {
      for (double& value : made.values) value = -value;
    });
  }
}

TEST_P(VerifyAttention, FindsListsThatAreNone) {
  const Made& rows = right_.at("top_rows");
  const Index x = 30, first = case_.at(rows, 1, x, 2, 0);  // three rows are listed there
  ASSERT_GE(rows.values[std::size_t(first + 2)], 0);
  const auto spoilt = [&](Index place, double row) {
    MadeResult made = right_;
    made.at("top_rows").values[std::size_t(first + place)] = row;
    return wrong(verify(made));
  };
  const auto all = [&](const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  for (const double row : {-1.0, -5.0, 1e6, rows.values[std::size_t(first)], double(x + 1)}) {
    if (row == x + 1 && !GetParam()) continue;  // if not causal, row x may see row x + 1
    EXPECT_TRUE(all(spoilt(1, row), "top_rows")) << row;
  }
  EXPECT_EQ(spoilt(1, rows.values[std::size_t(first + 2)]), (std::vector<std::string>{"top_rows", "top_weights"}));
}

/// Entries after the end of a list must be -1.
TEST_P(VerifyAttention, FindsRowsBehindTheEndOfAList) {
  const Made& rows = right_.at("top_rows");
  const auto end = std::find(rows.values.begin(), rows.values.end(), -1.0);
  ASSERT_EQ(end != rows.values.end(), GetParam()) << "the first rows see few, where attention is causal";
  for (const double row : {-2.0, -5.0, 0.0, 36.0}) {
    if (end == rows.values.end()) break;
    MadeResult made = right_;
    made.at("top_rows").values[std::size_t(end - rows.values.begin())] = row;
    EXPECT_EQ(wrong(verify(made)), std::vector<std::string>{"top_rows"}) << row;
  }
}

TEST_P(VerifyAttention, SeesOfAFewRowsTheFirstAndTheLast) {
  for (const std::string& name : tensors) {
    for (const Index x : {Index(0), Index(36)}) {
      MadeResult made = right_;
      made.at(name).values[std::size_t(case_.at(made.at(name), 0, x, 0, 0))] += 1e-6;
      const Findings found = case_.verify(made, comm_, 5);
      EXPECT_EQ(wrong(found), std::vector<std::string>{name}) << x;
      EXPECT_NE(found.scope.find("5 of 37 rows"), std::string::npos) << found.scope;
    }
  }
}

TEST(VerifyDeviation, OfSeveralInfiniteErrorsTheFirstIsNamed) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double first : {std::nan(""), infinity}) {
    Deviation deviation;
    deviation.compare(2, 1, [] { return "[3]"; });
    deviation.compare(first, 1, [] { return "[5]"; });
    for (const double later : {std::nan(""), infinity, 9.0}) deviation.compare(later, 1, [] { return "[9]"; });
    EXPECT_EQ(deviation.error, infinity);
    EXPECT_EQ(deviation.where, "[5]") << first;
  }
}

/// The sample has rows on both sides of the first border of segments, and of the last one.
TEST(VerifySample, HasTheRowsAtBorders) {
  strategies::Problem longer = problem(true);
  longer.shape.sequence = 1000;
  longer.documents = {0, 1000};
  longer.pattern.pairs = {{128, 1}};
  const std::vector<Index> rows = sample_rows(VerifyCase(longer).input(), 12).queries;
  for (const Index row : {0, 127, 128, 895, 896, 999}) {
    EXPECT_TRUE(std::binary_search(rows.begin(), rows.end(), row)) << row;
  }
}

}  // namespace
}  // namespace annulus::verify
