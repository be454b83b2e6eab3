// States that begin with filled-in keys have the same bits as states that attend() makes from stored keys of score 0
// and value 0: one key, many, several lists; on every back end, in both precisions, with and without exponent bias.
#include "annulus/kernels/filled_keys.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/work_case.hpp"
#include "support/tolerance.hpp"

namespace annulus::kernels {
namespace {

using core::FilledRuns;
using core::Index;
using core::Precision;
using Numbers = std::vector<double>;

/// The numbers of a state. Where l is 0, acc is not used and may be NaN; here it is set to 0.
struct States {
  Numbers m, l, acc;
  bool operator==(const States&) const = default;
};

States numbers_of(const State& state) {
  const core::DType type = state.precision == Precision::float64 ? core::DType::float64 : core::DType::float32;
  const Index count = state.shape.batch * state.rows * state.shape.heads, D = state.shape.head_dim;
  States all{test::from_device(state.m, count, type), test::from_device(state.l, count, type),
             test::from_device(state.acc, count * D, type)};
  for (std::size_t i = 0; i < all.acc.size(); ++i) {
    if (all.l[i / std::size_t(D)] == 0) all.acc[i] = 0;
  }
  return all;
}

/// 9 rows, 4 heads, batch 2; two lists that share rows and heads.
const core::Shape shape{2, 0, 4, 2, 5};
constexpr Index rows = 9;
const std::vector<FilledRuns> lists{{{0, 2, 4, 0, 1, 2, 3}, {1, 2, 4, 2, 1, 2, 7}}, {{4, 1, 5, 1, 2, 2, 100}}};

/// The number of filled-in keys with which a (row, head) begins.
Index begins_with(Index row, Index head) {
  Index keys = 0;
  for (const FilledRuns& runs : lists) {
    for (const core::FilledRun& run : runs) {
      const bool has_row =
          row >= run.row && (row - run.row) % run.stride == 0 && (row - run.row) / run.stride < run.count;
      const bool has_head = head >= run.head_first && (head - run.head_first) % run.head_stride == 0 &&
                            (head - run.head_first) / run.head_stride < run.head_count;
      if (has_row && has_head) keys += run.keys;
    }
  }
  return keys;
}

State filled_state(Precision precision, int exponent_bias) {
  State state(shape, rows, precision, exponent_bias);
  test::poison(state.acc);
  for (const FilledRuns& runs : lists) add_filled_keys(runs, state);
  return state;
}

/// The same state by attend(): row `row` and head `head` see begins_with(row, head) keys of zeros.
State attended_state(Backend backend, Precision precision, int exponent_bias) {
  constexpr Index most = 107;
  const Index queries = shape.batch * rows * shape.heads * shape.head_dim;
  const Index keys = shape.batch * most * shape.kv_heads * shape.head_dim;
  const auto q = test::to_device(test::random_values(core::TensorId::q, queries, core::DType::float32),
                                 core::DType::float32, rows, shape.heads, shape.head_dim);
  const auto zeros =
      test::to_device(Numbers(std::size_t(keys)), core::DType::float32, most, shape.kv_heads, shape.head_dim);
  State state(shape, rows, precision, exponent_bias);
  core::WorkList work;
  for (Index row = 0; row < rows; ++row) {
    for (Index head = 0; head < shape.heads; ++head) {
      if (begins_with(row, head) == 0) continue;
      const Index first = Index(work.runs.size());
      work.runs.push_back({0, row, 1, 1});
      work.runs.push_back({0, 0, 1, begins_with(row, head)});
      work.items.push_back({{first, 1, 1}, {first + 1, 1, begins_with(row, head)}, head / 2, head, 1, 1});
    }
  }
  attend(backend, work, {q.view, zeros.view, zeros.view, 0.5}, state);
  return state;
}

struct Setting {
  Precision precision;
  int exponent_bias;
};
const Setting settings[] = {{Precision::float32, 0},
                            {Precision::float32, reproducible_exponent_bias},
                            {Precision::float64, 0},
                            {Precision::float64, reproducible_exponent_bias}};

TEST(FilledKeys, AreWhatAttendMakesOfZeros) {
  for (const auto& [precision, bias] : settings) {
    const States filled = numbers_of(filled_state(precision, bias));
    Index empty = 0;
    for (const double l : filled.l) empty += l == 0;
    EXPECT_EQ(empty, 2 * (36 - 22)) << "what no list names";
    for (const Backend backend : {default_backend(), Backend::device}) {
      EXPECT_EQ(filled, numbers_of(attended_state(backend, precision, bias)))
          << name_of(precision) << ", bias " << bias;
    }
  }
}

TEST(FilledKeys, AloneGiveTheirNumberAndNoOutput) {
  const Index count = shape.batch * rows * shape.heads;
  const auto type = core::DType::float64;
  Numbers expected;
  for (Index i = 0; i < count; ++i) {
    const Index keys = begins_with(i / shape.heads % rows, i % shape.heads);
    expected.push_back(keys > 0 ? std::log(double(keys)) : -std::numeric_limits<double>::infinity());
  }
  for (const auto& [precision, bias] : settings) {
    for (const Backend backend : {default_backend(), Backend::device}) {
      const State state = filled_state(precision, bias);
      const auto out =
          test::to_device(Numbers(std::size_t(count * shape.head_dim), 7), type, rows, shape.heads, shape.head_dim);
      const auto lse = test::to_device(Numbers(std::size_t(count), 7), type, rows, shape.heads, 1);
      finish(backend, state, {out.view, lse.view});
      EXPECT_EQ(test::from_device(out.buffer, count * shape.head_dim, type),
                Numbers(std::size_t(count * shape.head_dim)));
      EXPECT_TRUE(test::close_to(test::from_device(lse.buffer, count, type), expected, 1e-14)) << name_of(precision);
    }
  }
}

TEST(FilledKeys, NoListMeansNothing) {
  State state(shape, rows, Precision::float32);
  const States before = numbers_of(state);
  add_filled_keys({}, state);
  EXPECT_EQ(numbers_of(state), before);
}

}  // namespace
}  // namespace annulus::kernels
