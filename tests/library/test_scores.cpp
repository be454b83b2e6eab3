// Softcap and ALiBi through the library on 1 to 4 ranks: compared with the float64 definition; and refused arguments.
#include <mpi.h>

#include <cmath>

#include "annulus/annulus.hpp"
#include "annulus/library/made_plan.hpp"
#include "small_case.hpp"

namespace annulus::test {
namespace {

/// Slopes for the four heads of the small problem.
const std::vector<double> slopes{0.5, 0.25, 0, 0.0625};

std::vector<double> places(Index rows) {
  std::vector<double> xy;
  for (Index row = 0; row < rows; ++row) xy.insert(xy.end(), {double(row % 5), std::floor(double(row) / 5) / 3});
  return xy;
}

std::string said_of(const Pattern& pattern) {
  try {
    const Plan plan(small, pattern);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(LibraryAttention, ScoresInEveryLayout) {
  const Communicator comm(MPI_COMM_WORLD);
  Pattern capped = dilated, plane = dilated, both = dilated;
  capped.softcap = 0.6;
  plane.bias = Bias{slopes, 1, places(small.sequence)};
  both.softcap = 8;
  both.bias = Bias{slopes, 0, {}};
  for (const DType type : core::all_dtypes) {
    for (const TensorLayout lies : every_layout) {
      for (const Pattern& pattern : {capped, plane, both}) {
        Options options;
        options.gradients = lies == TensorLayout::bshd;
        options.strategy = lies == TensorLayout::bshd ? "ulysses" : "auto";
        expect_definition({std::string(core::name_of(type)), with_type(small, type), pattern, options, lies}, comm);
      }
    }
  }
}

TEST(LibraryAttention, NormalizersOfOtherScoresAreRefused) {
  const Communicator comm(MPI_COMM_WORLD);
  const auto identity = [&](const Pattern& pattern) { return Plan(small, pattern, comm.size()).made().identity; };
  Pattern capped = dilated, line = dilated, plane = dilated, moved = dilated;
  capped.softcap = 5;
  line.bias = Bias{slopes, 0, {}};
  plane.bias = Bias{slopes, 0, places(small.sequence)};
  moved.bias = plane.bias;
  moved.bias->coordinates[3] += 0.5;
  const std::vector<Pattern> all{dilated, capped, line, plane, moved};
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t j = 0; j < all.size(); ++j) EXPECT_EQ(identity(all[i]) == identity(all[j]), i == j) << i << j;
  }
}

TEST(LibraryAttention, RefusesScoresThatAreNone) {
  const auto said = [](const std::function<void(Pattern&)>& change) {
    Pattern pattern = dilated;
    change(pattern);
    return said_of(pattern);
  };
  const auto expect = [&](const std::function<void(Pattern&)>& change, const std::string& message) {
    EXPECT_NE(said(change).find(message), std::string::npos) << message << ": " << said(change);
  };
  expect([](Pattern& p) { p.softcap = -1; }, "plan: softcap is -1, expected a number above 0");
  expect([](Pattern& p) { p.softcap = std::nan(""); }, "softcap is nan");
  expect([](Pattern& p) { p.bias = Bias{{0.5}}; }, "bias: 1 slopes, expected one for each of the 4 query heads");
  expect([](Pattern& p) { p.bias = Bias{{0.5, -1, 0, 0}}; }, "a slope of -1");
  expect([](Pattern& p) { p.bias = Bias{{}, -2}; }, "exempt is -2, expected 0 or more rows");
  expect([](Pattern& p) { p.bias = Bias{{}, 0, {1, 2, 3}}; }, "coordinates are 3 numbers, expected two for each");
  expect(
      [](Pattern& p) {
        p.bias = Bias{{}, 0, std::vector<double>(std::size_t(2 * small.sequence), INFINITY)};
      },
      "coordinates[0][0] is inf, expected finite numbers");
  const auto with_first = [](Pattern& p) {
    p.bias = Bias{{}, 0, std::vector<double>(std::size_t(2 * small.sequence))};
    p.bias->coordinates[0] = INFINITY;
  };
  expect(with_first, "coordinates[0][0] is inf, expected finite numbers");
  Shape one_entry = small;
  one_entry.batch = 1;
  Pattern without_first = dilated;
  with_first(without_first);
  without_first.ranges = {{1, small.sequence}};
  EXPECT_NO_THROW(Plan(one_entry, without_first)) << "row 0 does not exist";
}

}  // namespace
}  // namespace annulus::test
