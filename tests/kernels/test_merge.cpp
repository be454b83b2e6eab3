// Merged states of the same rows from several ranks, against sums in double, whatever the m of each state is.
#include "annulus/kernels/merge.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "annulus/core/error.hpp"

namespace annulus::kernels {
namespace {

using core::Index;
using core::Precision;

constexpr double infinity = std::numeric_limits<double>::infinity();

template <class T>
core::Buffer on_device(const std::vector<T>& numbers) {
  core::Buffer buffer("test", Index(numbers.size() * sizeof(T)));
  core::copy_to_device(buffer.data(), numbers.data(), buffer.bytes());
  return buffer;
}
template <class T>
std::vector<T> on_host(const core::Buffer& buffer) {
  std::vector<T> numbers(std::size_t(buffer.bytes()) / sizeof(T));
  core::copy_to_host(numbers.data(), buffer.data(), buffer.bytes());
  return numbers;
}

/// The numbers of states (B, rows, H).
struct Numbers {
  std::vector<double> m, l, score_sum, acc;

  Numbers(Index states, Index head_dim)
      : m(std::size_t(states), -infinity), l(m.size()), score_sum(m.size()), acc(m.size() * std::size_t(head_dim)) {}
};

template <class T>
State state_of(const Numbers& numbers, const core::Shape& shape, Index rows, Precision precision) {
  State state(shape, rows, precision, 0, true);
  const auto narrow = [](const std::vector<double>& wide) { return std::vector<T>(wide.begin(), wide.end()); };
  state.m = on_device(narrow(numbers.m));
  state.l = on_device(narrow(numbers.l));
  state.score_sum = on_device(narrow(numbers.score_sum));
  state.acc = on_device(narrow(numbers.acc));
  return state;
}

/// 2 batch entries, 3 rows, 2 heads of 5, 4 parts: every third state is empty, with NaN in its accumulator. `own`:
/// every second one of the states that receive the others has also seen keys.
template <class T>
void check(Precision precision, bool own, double tolerance) {
  const core::Shape shape{2, 3, 2, 2, 5};
  const Index rows = 3, parts = 4, states = shape.batch * rows * shape.heads, D = shape.head_dim;
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> unit(-1, 1);
  const auto fill = [&](Numbers& to, std::size_t at, double shift) {
    to.m[at] = shift;
    to.l[at] = 1.5 + unit(random);
    to.score_sum[at] = 40 * unit(random);
    for (Index d = 0; d < D; ++d) to.acc[at * std::size_t(D) + std::size_t(d)] = unit(random);
  };
  Numbers from(states * parts, D), into(states, D);
  for (std::size_t at = 0; at < from.m.size(); ++at) {
    if (at % 3 != 1) {
      fill(from, at, 2 * double(Index(random() % 20)) - 16);
    } else {
      for (Index d = 0; d < D; ++d) from.acc[at * std::size_t(D) + std::size_t(d)] = std::nan("");
    }
  }
  for (std::size_t at = 0; own && at < into.m.size(); at += 2) fill(into, at, 8);
  State merged = state_of<T>(into, shape, rows, precision);
  merge_states(state_of<T>(from, shape, parts * rows, precision), parts, merged);
  const auto m = on_host<T>(merged.m), l = on_host<T>(merged.l), sums = on_host<T>(merged.score_sum),
             acc = on_host<T>(merged.acc);
  const Index each = rows * shape.heads;
  for (Index at = 0; at < states; ++at) {
    SCOPED_TRACE(at);
    double shift = into.m[std::size_t(at)];
    std::vector<std::pair<const Numbers*, std::size_t>> all{{&into, std::size_t(at)}};
    for (Index part = 0; part < parts; ++part) {
      const auto one = std::size_t((at / each * parts + part) * each + at % each);
      shift = std::max(shift, from.m[one]);
      all.push_back({&from, one});
    }
    double sum = 0, score_sum = 0;
    std::vector<double> vector(static_cast<std::size_t>(D));
    for (const auto& [numbers, one] : all) {
      if (numbers->l[one] == 0) continue;
      const double weight = std::exp2(numbers->m[one] - shift);
      sum += weight * numbers->l[one];
      score_sum += weight * numbers->score_sum[one];
      for (std::size_t d = 0; d < vector.size(); ++d) vector[d] += weight * numbers->acc[one * vector.size() + d];
    }
    EXPECT_EQ(double(m[std::size_t(at)]), shift);
    EXPECT_NEAR(double(l[std::size_t(at)]), sum, tolerance);
    EXPECT_NEAR(double(sums[std::size_t(at)]), score_sum, 40 * tolerance);
    for (std::size_t d = 0; d < vector.size() && sum > 0; ++d)
      EXPECT_NEAR(double(acc[std::size_t(at) * vector.size() + d]), vector[d], tolerance);
  }
}

TEST(MergeStates, AreTheSumsOfAllParts) {
  for (const bool own : {false, true}) {
    check<float>(Precision::float32, own, 2e-6);
    check<double>(Precision::float64, own, 1e-14);
  }
}

TEST(MergeStates, FarApartTheLargerOneIsLeft) {
  const core::Shape shape{1, 1, 1, 1, 2};
  Numbers from(2, 2);
  from.m = {-1000, 400};
  from.l = {1, 2};
  from.acc = {3, 4, 5, 6};
  State merged(shape, 1, Precision::float32, 0, true);
  merge_states(state_of<float>(from, shape, 2, Precision::float32), 2, merged);
  EXPECT_EQ(on_host<float>(merged.m), (std::vector<float>{400}));
  EXPECT_EQ(on_host<float>(merged.l), (std::vector<float>{2}));
  EXPECT_EQ(on_host<float>(merged.acc), (std::vector<float>{5, 6}));
}

TEST(MergeStates, OfOtherNumbersAreRefused) {
  const core::Shape shape{1, 3, 1, 1, 2};
  State merged(shape, 3, Precision::float32);
  EXPECT_THROW(merge_states(State(shape, 5, Precision::float32), 2, merged), core::Error);
  EXPECT_THROW(merge_states(State(shape, 6, Precision::float32, 64), 2, merged), core::Error);
  EXPECT_THROW(merge_states(State(shape, 6, Precision::float64), 2, merged), core::Error);
}

TEST(MergeTop, KeepsTheLargestOfAllParts) {
  // One batch entry, two rows, one head, three parts of lists of two.
  const core::Buffer weights = on_device<double>({0.5, 0.25, 0.125, 0, 0.5, 0.375, 0, 0, 0.75, 0.1, 0.7, 0});
  const core::Buffer rows = on_device<Index>({9, 3, 4, -1, 2, 8, -1, -1, 7, 6, 1, -1});
  const core::Buffer best = on_device<double>({-1, -1, -1, -1}), best_rows = on_device<Index>({5, 5, 5, 5});
  merge_top({1, 2, 1, 1, 8}, 2, core::DType::float64, 2, {weights.data(), static_cast<Index*>(rows.data())}, 3,
            {best.data(), static_cast<Index*>(best_rows.data())});
  EXPECT_EQ(on_host<double>(best), (std::vector<double>{0.75, 0.5, 0.7, 0.125}));
  EXPECT_EQ(on_host<Index>(best_rows), (std::vector<Index>{7, 2, 1, 4})) << "of equal weights the smaller row";
}

}  // namespace
}  // namespace annulus::kernels
