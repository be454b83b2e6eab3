// Which problems are refused: the check that run files, the library and Python share.
#include "annulus/strategies/problem_checks.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "support/planned_problem.hpp"

namespace annulus::strategies {
namespace {

using pattern::Semantics;

/// "key: reason" for a problem of 40 rows that `change` makes invalid; empty: it is accepted.
std::string objection(const std::function<void(Problem&)>& change, Use use = Use::compute) {
  Problem problem = problem_of(40, {{8, 1}, {pattern::whole_document, 3}}, true);
  change(problem);
  const auto found = check(problem, use);
  return found ? fmt::format("{}: {}", found->key, found->reason) : "";
}

TEST(ProblemChecks, AcceptWhatMakesSense) {
  EXPECT_EQ(objection([](Problem&) {}), "");
  EXPECT_EQ(objection([](Problem& p) { p.pattern.semantics = Semantics::torchscale; }), "") << "8 is a multiple of 1";
  EXPECT_EQ(objection([](Problem& p) {
              p.pattern.semantics = Semantics::grouped;
              p.pattern.group_scale = true;
            }),
            "");
  EXPECT_EQ(objection([](Problem& p) { p.shape.sequence = Index(1) << 40; }), "") << "512 TiB";
}

TEST(ProblemChecks, NameTheSettingAndWhatWasExpected) {
  EXPECT_EQ(objection([](Problem& p) { p.scale = 0; }),
            "attention.scale: 0, times log2(e), is no number of precision float32, expected 8.1e-39 to 2.4e+38");
  EXPECT_EQ(objection([](Problem& p) { p.scale = std::numeric_limits<double>::quiet_NaN(); }).substr(0, 20),
            "attention.scale: nan");
  EXPECT_EQ(objection([](Problem& p) { p.pattern.group_scale = true; }),
            "attention.group_scale: true needs semantics grouped, not longnet");
  EXPECT_EQ(objection([](Problem& p) {
              p.pattern.semantics = Semantics::grouped;
              p.shape.heads = p.shape.kv_heads = 1;
            }),
            "attention.semantics: grouped gives every pair heads of its own; 2 pairs, 1 head");
  EXPECT_EQ(objection([](Problem& p) { p.shape.sequence = Index(1) << 50; }).substr(0, 30),
            "input: q of 1 x 11258999068426");
  EXPECT_EQ(objection([](Problem& p) {
              p.queries = core::Interval{40, 40 + (Index(1) << 50)};
            }).substr(0, 30),
            "input: q of 1 x 11258999068426");
  EXPECT_EQ(objection([](Problem& p) { p.statistics.top_keys = Index(1) << 48; }).substr(0, 40),
            "output.top_keys: lists of 28147497671065");
}

TEST(ProblemChecks, ValuesOfAnotherSizeAreForTheHost) {
  const auto with = [](kernels::Backend backend) {
    return [=](Problem& p) {
      p.shape.head_dim = 8;
      p.shape.set_value_dim(6);
      p.backend = backend;
    };
  };
  EXPECT_EQ(objection(with(kernels::Backend::host)), "");
  for (const kernels::Backend backend : {kernels::Backend::device, kernels::Backend::cudnn}) {
    EXPECT_EQ(objection(with(backend)),
              fmt::format("input.v: 6 numbers a head, q and k 8: back end {} takes no values of another head size than "
                          "keys yet; expected as many",
                          name_of(backend)));
    EXPECT_EQ(objection(with(backend), Use::look_at), "");
  }
}

TEST(ProblemChecks, ScoresThatCannotBe) {
  const auto with = [](const kernels::ScoreRule& rule, kernels::Backend backend = kernels::Backend::host) {
    return [=](Problem& p) {
      p.rule = rule;
      p.rule.slopes.resize(rule.slopes.empty() ? 0 : std::size_t(p.shape.heads), 0.5);
      p.backend = backend;
    };
  };
  const auto far = std::make_shared<kernels::Coordinates>(std::vector<double>(80, 0));
  const auto few = std::make_shared<kernels::Coordinates>(std::vector<double>(78, 0));
  EXPECT_EQ(objection(with({50, {0.5}, 2, far})), "");
  EXPECT_EQ(objection(with({1e31})), "attention.softcap: 1e+31, expected 1e-30 to 1e30");
  EXPECT_EQ(objection(with({0, {0.5}, 0, few})), "input.coordinates: 39 rows, expected 40");
  EXPECT_EQ(objection(with({0, {1e30}})),
            "attention.bias: a slope of 1e+30 at distances up to 40, expected 0 or more and scores up to 1e+30");
  EXPECT_EQ(objection(with({5}, kernels::Backend::device)), "");
  EXPECT_EQ(objection(with({5}, kernels::Backend::cudnn)),
            "attention.softcap: back end cudnn takes no scores with a cap or a bias; expected none");
  EXPECT_EQ(objection(with({5}, kernels::Backend::cudnn), Use::look_at), "");
  EXPECT_EQ(objection([&](Problem& p) {
              with({0, {0.5}})(p);
              p.shape.sequence = kernels::most_biased_rows + 1;
            }),
            "attention.bias: 1073741825 rows, expected at most 1073741824");
}

TEST(ProblemChecks, WindowsThatCannotBe) {
  const auto with = [](Semantics semantics, pattern::Pair pair) {
    return [=](Problem& p) {
      p.pattern.semantics = semantics;
      p.pattern.pairs[1] = pair;
    };
  };
  const Index all = pattern::whole_document;
  EXPECT_EQ(objection(with(Semantics::longnet, {all, 3, pattern::Window{4, 0}})), "");
  EXPECT_EQ(objection(with(Semantics::grouped, {all, 1, pattern::Window{4, 0, 2}})), "");
  EXPECT_EQ(objection(with(Semantics::longnet, {all, 3, pattern::Window{4, 0, 2}})),
            "attention.segments: pair 2, {window: [4, 0], first: 2}: first needs dilation 1, which is 3");
  EXPECT_EQ(objection(with(Semantics::torchscale, {all, 1, pattern::Window{4, 0}})),
            "attention.segments: pair 2, {window: [4, 0]}: torchscale has no windows, expected rows or all");
}

TEST(ProblemChecks, DisplacedRowsOfOneDocumentAndOfSeveral) {
  const auto displaced = [](Problem& p) {
    p.pattern.semantics = Semantics::torchscale;
    p.pattern.pairs[0] = {8, 3};
  };
  EXPECT_EQ(objection(displaced),
            "attention.segments: torchscale writes rows to wrong places in pair 1, segment 8 and dilation 3: the "
            "sequence of 40 rows has more than one segment, and 8 is no multiple of 3; expected a multiple or at "
            "least 40 rows");
  const auto documents = [&](Problem& p) {
    displaced(p);
    p.documents = {0, 8, 8, 40};
  };
  EXPECT_NE(objection(documents).find("document 3 (rows 8 to 39) of 32 rows"), std::string::npos);
  EXPECT_EQ(objection(documents), objection(documents, Use::look_at)) << "wrong numbers on every machine";
}

/// A result that another machine has computed may be looked at here, even if this build lacks its back end.
TEST(ProblemChecks, ProductsAreAskedOfTheBackEndThatComputes) {
  const auto products = [](core::Precision precision, core::DType type) {
    return [=](Problem& p) {
      p.precision = precision;
      p.type = type;
      p.backend = kernels::default_backend();
    };
  };
  const auto of_halves = products(core::Precision::tf32, core::DType::float16);
  EXPECT_EQ(objection(of_halves),
            "compute.precision: products of tf32 are made of tensors of float32 only, and these are float16; expected "
            "auto, float32 or float64");
  EXPECT_EQ(objection(of_halves, Use::look_at), objection(of_halves));
  EXPECT_EQ(objection(products(core::Precision::three_bfloat16, core::DType::bfloat16)),
            "compute.precision: products of 3xbfloat16 are made of tensors of float32 or float16 only, and these are "
            "bfloat16; expected auto, float32 or float64");
  EXPECT_EQ(objection(products(core::Precision::three_bfloat16, core::DType::float16), Use::look_at), "");
  const auto of_floats = products(core::Precision::tf32, core::DType::float32);
  const std::string lacks = kernels::why_no_products(kernels::default_backend(), core::Precision::tf32);
  EXPECT_EQ(objection(of_floats),
            lacks.empty() ? "" : "compute.precision: " + lacks + "; expected auto, float32 or float64");
  EXPECT_EQ(objection(of_floats, Use::look_at), "");
}

}  // namespace
}  // namespace annulus::strategies
