// Sink logits: exact sums, against known sums; states to which a sink is added, on every back end and in every
// precision, against the definition; gradients of sinks, against the formula.
#include "annulus/kernels/sink.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "annulus/core/error.hpp"
#include "annulus/core/tolerance.hpp"
#include "annulus/kernels/cuda/choice.hpp"
#include "kernels/awkward_case.hpp"
#include "support/tolerance.hpp"

namespace annulus::kernels {
namespace {

using core::Index;
using core::Precision;
using Numbers = std::vector<double>;
using Words = std::vector<std::int64_t>;
constexpr double infinity = std::numeric_limits<double>::infinity();

Words words_of(const Numbers& numbers) {
  Words words(exact_words, 0);
  for (const double x : numbers) add_exactly(words.data(), x);
  carry_exactly(words.data());
  return words;
}
double sum_of(const Numbers& numbers) { return exact_value(words_of(numbers).data()); }

TEST(ExactSum, NumbersOfEverySizeComeBack) {
  const double denormal = std::numeric_limits<double>::denorm_min(), largest = std::numeric_limits<double>::max();
  for (const double x : {0.0, 1.0, -1.0, 1.0 / 3, 0x1p-1022, denormal, 3 * denormal, largest, 1e-300, 12345.678}) {
    EXPECT_EQ(sum_of({x}), x);
    EXPECT_EQ(sum_of({-x}), -x);
    EXPECT_EQ(sum_of({x, -x}), 0);
  }
  EXPECT_EQ(sum_of({}), 0);
}

TEST(ExactSum, SmallNumbersBesideLargeOnesCount) {
  EXPECT_EQ(sum_of({1e300, 1, -1e300}), 1);
  EXPECT_EQ(sum_of({1e300, 1e-300, -1e300, 2, -2}), 1e-300);
  EXPECT_EQ(sum_of({-1, 0x1p-60, 1 - 0x1p-53}), -0x1p-53 + 0x1p-60);
  EXPECT_EQ(sum_of(Numbers(1 << 20, 0.1)), 0x1p20 * 0.1);
}

TEST(ExactSum, AnyOrderAndAnyPartsGiveTheSameWords) {
  std::mt19937_64 random(3);
  Numbers numbers;
  for (int i = 0; i < 3000; ++i) {
    const double fraction = std::uniform_real_distribution<double>(-1, 1)(random);
    numbers.push_back(std::ldexp(fraction, int(random() % 2000) - 1040));
  }
  const Words expected = words_of(numbers);
  for (int turn = 0; turn < 5; ++turn) {
    std::shuffle(numbers.begin(), numbers.end(), random);
    const auto cut = numbers.begin() + Index(random() % numbers.size());
    Words words = words_of({numbers.begin(), cut});
    add_words(words_of({cut, numbers.end()}), words);
    EXPECT_EQ(words, expected);
  }
}

TEST(ExactSum, WhatIsNoNumberMakesNone) {
  for (const double bad : {infinity, -infinity, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_TRUE(std::isnan(sum_of({1, bad, 2})));
  }
}

/// Adds one more key of value 0 to out (B, rows, H, D) and lse (B, rows, H), in rows that see a key.
void add_to_answer(const Numbers& sink, Index D, ReferenceResult& answer) {
  for (std::size_t at = 0; at < answer.lse.size(); ++at) {
    const double before = answer.lse[at], score = sink[at % sink.size()], most = std::max(before, score);
    if (std::isinf(before)) continue;
    answer.lse[at] = most + std::log(std::exp(before - most) + std::exp(score - most));
    for (Index d = 0; d < D; ++d) answer.out[at * std::size_t(D) + std::size_t(d)] *= std::exp(before - answer.lse[at]);
  }
}

void check_states(Backend backend, core::DType type, Precision precision, int exponent_bias, const Numbers& sink) {
  SCOPED_TRACE(fmt::format("{}, {}, {}, bias {}, sink {} ...", core::name_of(backend), core::name_of(type),
                           core::name_of(precision), exponent_bias, sink[0]));
  const test::WorkCase work = test::awkward_case(24, type, precision, true);
  const Index D = work.shape.head_dim, rows = work.query_rows, heads = work.shape.heads;
  const auto q = test::to_device(work.q, type, rows, heads, D);
  const auto k = test::to_device(work.k, type, work.key_rows, work.shape.kv_heads, D);
  const auto v = test::to_device(work.v, type, work.key_rows, work.shape.kv_heads, D);
  State state(work.shape, rows, precision, exponent_bias);
  test::poison(state.acc);
  for (const core::WorkList& list : work.calls) attend(backend, list, {q.view, k.view, v.view, work.scale()}, state);
  add_sink(sink, state);
  const core::DType sums = work.sums();
  const auto out = test::to_device(Numbers(work.q.size()), sums, rows, heads, D);
  const auto lse = test::to_device(Numbers(work.q.size() / 24), sums, rows, heads, 1);
  finish(backend, state, {out.view, lse.view});
  ReferenceResult expected = test::naive_answer(work);
  add_to_answer(sink, D, expected);
  // Matrix units round weights to the storage type of values.
  const bool is_rounded = precision == Precision::bfloat16 || (backend == Backend::device && cuda::is_built);
  const double tolerance =
      std::max(core::forward_tolerance(precision), core::forward_tolerance(is_rounded ? type : sums));
  EXPECT_TRUE(test::close_to(test::from_device(out.buffer, work.query_numbers(), sums), expected.out, tolerance));
  EXPECT_TRUE(test::close_to(test::from_device(lse.buffer, work.states(), sums), expected.lse, tolerance));
}

// Scores are a few units large. Awkward rows that are in no item stay without keys.
const std::vector<Numbers> sinks{
    {0.5, 2, -infinity, -3}, {-200, -40, 0, 1}, {14, 15, 40, 700}, {1e30, -1e30, 1e4, -1e4}};

TEST(Sink, StatesOfEveryBackEnd) {
  for (const auto& [type, precision] : test::types_and_precisions()) {
    for (const Backend backend : {Backend::host, Backend::device}) {
      if (!why_no_backend(backend).empty() || !why_no_products(backend, precision).empty()) continue;
      for (const Numbers& sink : sinks) check_states(backend, type, precision, 0, sink);
      if (precision == Precision::bfloat16) continue;
      check_states(backend, type, precision, reproducible_exponent_bias, sinks[0]);
      check_states(backend, type, precision, reproducible_exponent_bias, sinks[2]);
    }
  }
}

TEST(Sink, GradientsOfAnyRowsAddUp) {
  const core::Shape shape{2, 0, 3, 1, 1};
  const Numbers sink{0.25, -infinity, 9};
  std::mt19937_64 random(8);
  std::normal_distribution<double> normal;
  for (const core::DType type : {core::DType::float32, core::DType::float64}) {
    constexpr Index rows = 150;
    Numbers lse, delta, expected(3, 0.0);
    for (Index i = 0; i < 2 * rows * 3; ++i) {
      lse.push_back(i % 11 == 5 ? -infinity : 3 * normal(random));
      delta.push_back(i % 11 == 5 ? std::numeric_limits<double>::quiet_NaN() : normal(random));
    }
    const Numbers normalizers = test::rounded(test::normalizers_of(lse), type);
    delta = test::rounded(delta, type);
    for (std::size_t i = 0; i < lse.size(); ++i) {
      if (!std::isinf(lse[i])) expected[i % 3] -= std::exp(sink[i % 3] - lse[i]) * delta[i];
    }
    const auto made = [&](Index first, Index count) {  // the gradient from these rows of both batch entries
      const std::vector<core::Interval> some{{first, first + count}};
      const auto n = test::to_device(test::take_rows(normalizers, 2, rows, some), type, count, 3, 2);
      const auto d = test::to_device(test::take_rows(delta, 2, rows, some), type, count, 3, 1);
      return sink_gradient(shape, count, sink, n.view, d.view);
    };
    const Words all = made(0, rows);
    EXPECT_TRUE(test::close_to(sink_gradients_of(all), expected, type == core::DType::float64 ? 1e-13 : 1e-6));
    EXPECT_EQ(sink_gradients_of(all)[1], 0);
    Words parts = made(140, 10);
    for (const auto& [first, count] : {std::pair<Index, Index>{0, 1}, {70, 70}, {1, 69}, {3, 0}}) {
      add_words(made(first, count), parts);
    }
    EXPECT_EQ(parts, all);
  }
}

}  // namespace
}  // namespace annulus::kernels
