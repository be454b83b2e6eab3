// The reference against the worked example of its definition, numbers computed by hand, and a direct formula.
#include "annulus/kernels/reference.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "support/attention_case.hpp"
#include "support/tolerance.hpp"

namespace annulus::kernels {
namespace {

using core::Index;
using Multiset = std::map<Index, Index>;  // key row -> multiplicity
constexpr double infinity = std::numeric_limits<double>::infinity();

Multiset keys_of(const ReferencePattern& pattern, Index sequence, Index heads, Index head, Index x) {
  Multiset keys;
  for (Index p = 0; p < sequence; ++p) {
    const Index times = multiplicity(pattern, heads, head, x, p, document_of(pattern, sequence, x));
    if (times > 0) keys[p] = times;
  }
  return keys;
}

ReferencePattern worked_example() {
  ReferencePattern pattern;
  pattern.pairs = {{4, 1}, {8, 2}};
  pattern.causal = true;
  return pattern;
}

TEST(Reference, WorkedExample) {
  const ReferencePattern pattern = worked_example();
  EXPECT_EQ(keys_of(pattern, 10, 4, 0, 6), (Multiset{{0, 1}, {2, 1}, {4, 2}, {5, 1}, {6, 2}}));
  EXPECT_EQ(keys_of(pattern, 10, 4, 1, 6), keys_of(pattern, 10, 4, 0, 6));  // heads 0 and 1: offset 0
  EXPECT_EQ(keys_of(pattern, 10, 4, 2, 6), (Multiset{{4, 1}, {5, 1}, {6, 1}}));
  EXPECT_EQ(keys_of(pattern, 10, 4, 3, 7), (Multiset{{1, 1}, {3, 1}, {4, 1}, {5, 2}, {6, 1}, {7, 2}}));
  EXPECT_EQ(keys_of(pattern, 10, 4, 0, 9), (Multiset{{8, 1}, {9, 1}}));
}

TEST(Reference, WithoutCausalTheWholeCombIsSeen) {
  ReferencePattern pattern = worked_example();
  pattern.causal = false;
  EXPECT_EQ(keys_of(pattern, 10, 4, 0, 2), (Multiset{{0, 2}, {1, 1}, {2, 2}, {3, 1}, {4, 1}, {6, 1}}));
  EXPECT_EQ(keys_of(pattern, 10, 4, 0, 8), (Multiset{{8, 2}, {9, 1}}));  // the last segments are shorter
}

TEST(Reference, OffsetsOfTheSemantics) {
  // One segment of 12 rows, r = 3: of rows 0, 1 and 2, only the row whose number is the head's offset sees keys.
  ReferencePattern pattern;
  pattern.pairs = {{whole_document, 3}};
  const auto offset = [&](Index heads, Index head) {
    for (Index x = 0; x < 3; ++x) {
      if (!keys_of(pattern, 12, heads, head, x).empty()) return x;
    }
    return Index(-1);
  };
  for (const auto& [head, expected] : Multiset{{0, 0}, {1, 0}, {2, 1}, {3, 1}, {4, 2}}) {  // ceil(5 / 3) = 2
    EXPECT_EQ(offset(5, head), expected) << head;
  }
  pattern.semantics = ReferenceSemantics::paper;
  for (const auto& [head, expected] : Multiset{{0, 0}, {1, 1}, {2, 2}, {3, 0}, {4, 1}}) {
    EXPECT_EQ(offset(5, head), expected) << head;
  }
}

TEST(Reference, GroupsOfHeads) {
  // 7 heads in 3 groups: 0 1 2 | 3 4 | 5 6. Pair i has offset i mod r_i.
  ReferencePattern pattern;
  pattern.semantics = ReferenceSemantics::grouped;
  pattern.pairs = {{4, 1}, {8, 2}, {whole_document, 2}};
  const Multiset own{{0, 1}, {1, 1}, {2, 1}, {3, 1}}, odd{{1, 1}, {3, 1}, {5, 1}, {7, 1}},
      even{{0, 1}, {2, 1}, {4, 1}, {6, 1}, {8, 1}, {10, 1}};
  for (const Index head : {0, 1, 2}) EXPECT_EQ(keys_of(pattern, 11, 7, head, 2), own) << head;
  for (const Index head : {3, 4}) {
    EXPECT_EQ(keys_of(pattern, 11, 7, head, 3), odd) << head;
    EXPECT_EQ(keys_of(pattern, 11, 7, head, 2), Multiset{}) << head;
  }
  for (const Index head : {5, 6}) EXPECT_EQ(keys_of(pattern, 11, 7, head, 2), even) << head;
}

TEST(Reference, DocumentsCountFromTheirOwnStart) {
  // Documents of 3, 0 and 7 rows. In the last one row 3 is number 0.
  ReferencePattern pattern;
  pattern.pairs = {{4, 2}};
  pattern.documents = {0, 3, 3, 10};
  EXPECT_EQ(document_of(pattern, 10, 2), (core::Interval{0, 3}));
  EXPECT_EQ(document_of(pattern, 10, 3), (core::Interval{3, 10}));
  EXPECT_EQ(keys_of(pattern, 10, 1, 0, 0), (Multiset{{0, 1}, {2, 1}}));
  EXPECT_EQ(keys_of(pattern, 10, 1, 0, 3), (Multiset{{3, 1}, {5, 1}}));
  EXPECT_EQ(keys_of(pattern, 10, 1, 0, 9), (Multiset{{7, 1}, {9, 1}}));
}

TEST(Reference, KeyRangeIsTheHullOfTheKeys) {
  ReferencePattern pattern;
  pattern.pairs = {{5, 2}, {whole_document, 3}, {7, 7}};
  for (const bool causal : {false, true}) {
    for (const auto& documents : {std::vector<Index>{}, std::vector<Index>{0, 6, 6, 29}}) {
      pattern.causal = causal;
      pattern.documents = documents;
      for (Index head = 0; head < 3; ++head) {
        for (Index x = 0; x < 29; ++x) {
          const Multiset keys = keys_of(pattern, 29, 3, head, x);
          const core::Interval range = key_range(pattern, 29, 3, head, x);
          EXPECT_EQ(range.empty(), keys.empty()) << x;
          if (keys.empty()) continue;
          EXPECT_EQ(range.begin, keys.begin()->first) << x;
          EXPECT_EQ(range.end, keys.rbegin()->first + 1) << x;
        }
      }
    }
  }
}

TEST(Reference, KeyRunsHoldEveryKeyAsOftenAsItCounts) {
  ReferencePattern pattern;
  pattern.pairs = {{5, 2}, {whole_document, 3}, {7, 7}, {1, 1}};
  for (const auto semantics : {ReferenceSemantics::longnet, ReferenceSemantics::paper, ReferenceSemantics::grouped,
                               ReferenceSemantics::torchscale}) {
    for (const bool causal : {false, true}) {
      for (const auto& documents : {std::vector<Index>{}, std::vector<Index>{0, 6, 6, 29}}) {
        pattern.semantics = semantics;
        pattern.causal = causal;
        pattern.documents = documents;
        for (Index head = 0; head < 5; ++head) {
          for (Index x = 0; x < 29; ++x) {
            Multiset keys;
            for (const RowRun& run : key_runs(pattern, 29, 5, head, x)) {
              for (Index p = run.first; p < run.end; p += run.step) ++keys[p];
            }
            EXPECT_EQ(keys, keys_of(pattern, 29, 5, head, x)) << "row " << x << ", head " << head;
          }
        }
      }
    }
  }
}

TEST(Reference, NumbersComputedByHand) {
  // D = 1, row 2 of the worked example's head 0 sees 0 1 2 (first pair) and 0 2 (second): multiplicities 2 1 2.
  // q = ln 2, k = 0 1 3: weights 2 * 1, 1 * 2, 2 * 8, sum 20. v = 10 20 30: out = (20 + 40 + 480) / 20 = 27.
  const core::Shape shape{1, 3, 4, 1, 1};
  const std::vector<double> q(12, std::log(2.0)), k{0, 1, 3}, v{10, 20, 30};
  ReferencePattern pattern = worked_example();
  ReferenceResult result = reference_forward(shape, pattern, q, k, v);
  EXPECT_NEAR(result.out[8], 27, 1e-13);
  EXPECT_NEAR(result.lse[8], std::log(20.0), 1e-13);

  pattern.group_scale = true;  // divides out by 2, the number of pairs, but not lse
  result = reference_forward(shape, pattern, q, k, v);
  EXPECT_NEAR(result.out[8], 13.5, 1e-13);
  EXPECT_NEAR(result.lse[8], std::log(20.0), 1e-13);

  pattern = worked_example();
  pattern.scale = 2;  // weights 2 * 1, 1 * 4, 2 * 64
  result = reference_forward(shape, pattern, q, k, v);
  EXPECT_NEAR(result.out[8], (20 + 80 + 3840) / 134.0, 1e-13);
}

TEST(Reference, EntropyComputedByHand) {
  // The row of NumbersComputedByHand: P = 2/20, 2/20, 16/20. In the second order, the key of the largest score is
  // first.
  const ReferencePattern pattern = worked_example();
  const core::Shape shape{1, 3, 4, 1, 1};
  const std::vector<double> q{std::log(2.0)}, k{0, 1, 3}, v{1};
  // Keys 0 and 2 occur twice: in the entropy they count as two keys, each with half of this P.
  const double expected = -(2 * 0.05 * std::log(0.05) + 0.1 * std::log(0.1) + 2 * 0.4 * std::log(0.4));
  for (const std::vector<Index>& order : {std::vector<Index>{0, 1, 2}, {2, 1, 0}}) {
    ReferenceRow row(pattern, shape, 0, 2, q);
    EXPECT_EQ(row.entropy(), 0) << "no key";
    for (const Index p : order) row.add(p, std::span(&k[std::size_t(p)], 1), v);
    EXPECT_NEAR(row.entropy(), expected, 1e-14);
  }
}

TEST(Reference, FilledInKeysAreInTheEntropy) {
  ReferencePattern pattern;
  pattern.semantics = ReferenceSemantics::torchscale;
  pattern.pairs = {{8, 2}};
  const std::vector<double> q{1}, k{std::log(2.0)}, v{1};
  ReferenceRow row(pattern, {1, 10, 2, 2, 1}, 0, 8, q);  // sees itself and three keys of score 0: 2/5 and 3 times 1/5
  row.add(8, k, v);
  EXPECT_NEAR(row.entropy(), -(0.4 * std::log(0.4) + 0.6 * std::log(0.2)), 1e-15);
}

TEST(Reference, RowsWithoutKeys) {
  ReferencePattern pattern;
  pattern.pairs = {{4, 2}};
  const ReferenceResult result = reference_forward({1, 2, 1, 1, 1}, pattern, {1, 1}, {1, 1}, {5, 5});
  EXPECT_EQ(result.out, (std::vector<double>{5, 0}));
  EXPECT_EQ(result.lse, (std::vector<double>{1, -infinity}));
}

TEST(Reference, SlotsWithoutARowAreFilledIn) {
  ReferencePattern pattern;
  pattern.semantics = ReferenceSemantics::torchscale;
  pattern.pairs = {{8, 2}};
  const auto filled = [&](Index rows, Index heads, Index head, Index x) {
    return filled_in(pattern, heads, head, x, {0, rows});
  };
  EXPECT_EQ(filled(10, 2, 0, 8), 3);  // the worked example: slots 8 9 | . . | . . | . .
  EXPECT_EQ(filled(10, 2, 1, 9), 3);
  EXPECT_EQ(filled(10, 2, 0, 6), 0) << "a full segment";
  EXPECT_EQ(filled(10, 2, 0, 9), 0) << "not picked";
  EXPECT_EQ(filled(7, 2, 0, 4), 0);  // one segment of 7 rows: slots 0 1 | 2 3 | 4 5 | 6 .
  EXPECT_EQ(filled(7, 2, 1, 5), 1);
  pattern.pairs = {{1024, 1}, {5792, 2}, {32768, 4}};
  // The last segments have 785, 4209 and all 10,001 rows, of which pair 3 picks 2501 at offset 0, 2500 at offset 3.
  EXPECT_EQ(filled(10001, 16, 0, 10000), (1024 - 785) + (2896 - 2105) + 0);
  EXPECT_EQ(filled(10001, 16, 15, 9999), (1024 - 785) + (2896 - 2104) + 1);
  pattern.causal = true;
  EXPECT_EQ(filled(10, 2, 0, 8), 0) << "causal: they come after every row";
  pattern.causal = false;
  pattern.semantics = ReferenceSemantics::longnet;
  EXPECT_EQ(filled(10, 2, 0, 8), 0);
}

TEST(Reference, FilledInKeysByHand) {
  // D = 1, rows 8 and 9 of the worked example, one head at offset 0: row 8 sees itself and three zeros of value zero.
  // Score ln 2: out = 2 * 10 / (2 + 3). Row 9 is not picked.
  ReferencePattern pattern;
  pattern.semantics = ReferenceSemantics::torchscale;
  pattern.pairs = {{8, 2}};
  const std::vector<double> q(10, std::log(2.0)), k(10, 1.0), v(10, 10.0);
  const ReferenceResult result = reference_forward({1, 10, 1, 1, 1}, pattern, q, k, v);
  EXPECT_NEAR(result.out[8], 4, 1e-14);
  EXPECT_NEAR(result.lse[8], std::log(5.0), 1e-14);
  EXPECT_EQ(result.lse[9], -infinity);
  // Scores so low that the row's own key has no weight beside keys of score 0.
  const ReferenceResult low = reference_forward({1, 10, 1, 1, 1}, pattern, std::vector<double>(10, -1e5), k, v);
  EXPECT_EQ(low.out[8], 0);
  EXPECT_EQ(low.lse[8], std::log(3.0));
}

TEST(Reference, AnyScoreSizeInAnyOrder) {
  ReferencePattern pattern;  // dense
  const core::Shape shape{1, 3, 1, 1, 1};
  const std::vector<double> q{1e300};
  for (const auto& order : {std::vector<Index>{0, 1, 2}, std::vector<Index>{2, 0, 1}, std::vector<Index>{1, 2, 0}}) {
    ReferenceRow row(pattern, shape, 0, 0, q);
    const double k[] = {1, -1, 1}, v[] = {3, 50, 5};
    for (const Index p : order) row.add(p, std::span(k + p, 1), std::span(v + p, 1));
    double out = 0, lse = 0;
    row.finish(std::span(&out, 1), lse);
    EXPECT_EQ(out, 4);
    EXPECT_EQ(lse, 1e300);
  }
}

// Directly by the formula: exp(score) of every key of a row, without subtracting the largest score first.
ReferenceResult direct_formula(const test::AttentionCase& problem) {
  const core::Shape& s = problem.shape;
  const std::vector<double> q = problem.q(), k = problem.k(), v = problem.v();
  ReferenceResult result;
  for (Index b = 0; b < s.batch; ++b) {
    for (Index x = 0; x < s.sequence; ++x) {
      for (Index h = 0; h < s.heads; ++h) {
        const auto at = [&](Index row, Index heads, Index head, Index d) {
          return std::size_t(((b * s.sequence + row) * heads + head) * s.head_dim + d);
        };
        std::vector<double> weights;
        const core::Interval document = document_of(problem.pattern, s.sequence, x);
        double sum = double(filled_in(problem.pattern, s.heads, h, x, document));  // exp(0) each
        for (Index p = 0; p < s.sequence; ++p) {
          double score = 0;
          for (Index d = 0; d < s.head_dim; ++d) {
            score += q[at(x, s.heads, h, d)] * k[at(p, s.kv_heads, h / s.group(), d)];
          }
          const Index times = multiplicity(problem.pattern, s.heads, h, x, p, document);
          weights.push_back(double(times) * std::exp(problem.pattern.scale * score));
          sum += weights.back();
        }
        if (sum > 0 && !problem.pattern.sink.empty()) sum += std::exp(problem.pattern.sink[std::size_t(h)]);
        for (Index d = 0; d < s.head_dim; ++d) {
          double out = 0;
          for (Index p = 0; p < s.sequence; ++p) {
            out += weights[std::size_t(p)] * v[at(p, s.kv_heads, h / s.group(), d)];
          }
          result.out.push_back(sum > 0 ? out / sum : 0.0);
        }
        result.lse.push_back(std::log(sum));
      }
    }
  }
  return result;
}

TEST(Reference, EqualsTheDirectFormula) {
  test::AttentionCase problem;
  problem.shape = {2, 37, 6, 2, 5};
  problem.type = core::DType::float64;
  problem.pattern.scale = 0.4;
  problem.pattern.pairs = {{8, 1}, {16, 3}, {whole_document, 4}};
  for (const auto semantics : {ReferenceSemantics::longnet, ReferenceSemantics::paper, ReferenceSemantics::grouped,
                               ReferenceSemantics::torchscale}) {
    for (const bool causal : {false, true}) {
      for (const auto& documents : {std::vector<Index>{}, std::vector<Index>{0, 11, 37}}) {
        problem.pattern.semantics = semantics;
        problem.pattern.causal = causal;
        problem.pattern.documents = documents;
        for (const auto& sink : {std::vector<double>{}, {0.5, -3, 7, -infinity, 0, 1}}) {
          problem.pattern.sink = sink;
          const ReferenceResult expected = direct_formula(problem), actual = problem.reference();
          EXPECT_TRUE(test::close_to(actual.out, expected.out, 1e-13));
          EXPECT_TRUE(test::close_to(actual.lse, expected.lse, 1e-13));
        }
      }
    }
  }
}

// Row 0 sees itself with weight e^0 = 1, value 6; its sink ln 2 has weight 2: out = 6 / 3, lse = ln 3, P = 1/3 and 2/3.
// Row 1 is in no comb and sees nothing, not even its sink.
TEST(Reference, SinkOfARowThatSeesAKey) {
  ReferencePattern pattern;
  pattern.pairs = {{2, 2}};
  pattern.sink = {std::log(2.0)};
  const core::Shape shape{1, 2, 1, 1, 1};
  const std::vector<double> q{0}, k{5}, v{6};
  std::vector<double> out{1};
  double lse = 0;
  ReferenceRow row(pattern, shape, 0, 0, q), keyless(pattern, shape, 0, 1, q);
  row.add(0, k, v);
  row.finish(out, lse);
  EXPECT_NEAR(out[0], 2, 1e-15);
  EXPECT_NEAR(lse, std::log(3.0), 1e-15);
  EXPECT_NEAR(row.entropy(), std::log(3.0) / 3 + 2.0 / 3 * std::log(1.5), 1e-15);
  keyless.add(0, k, v);
  keyless.finish(out, lse);
  EXPECT_EQ(out[0], 0);
  EXPECT_EQ(lse, -infinity);
  EXPECT_EQ(keyless.entropy(), 0);
}

}  // namespace
}  // namespace annulus::kernels
