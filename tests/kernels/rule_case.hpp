// Score rules for the tests of kernels: caps and ALiBi, each alone and both together, with small and large numbers.
#pragma once

#include <fmt/format.h>

#include <cmath>

#include "kernels/awkward_case.hpp"

namespace annulus::test {

struct NamedRule {
  std::string name;
  kernels::ScoreRule rule;
};

/// Coordinates of `rows` rows, which fill a grid line by line, twelve rows to a line; every seventh row has the same
/// coordinates as the row before it. With `is_odd` the rows do not lie on a grid.
inline std::shared_ptr<const kernels::Coordinates> grid_of(Index rows, bool is_odd = false) {
  std::vector<double> xy;
  for (Index row = 0; row < rows; ++row) {
    const Index place = row % 7 == 3 ? row - 1 : row;
    xy.push_back(double(place % 12) + (is_odd ? 0.37 * double(place % 5) : 0));
    xy.push_back(std::floor(place / 12.) - (is_odd ? 1e3 / 3 : 0));
  }
  return std::make_shared<const kernels::Coordinates>(xy);
}

/// Rules for up to six heads and 300 rows. One of the slopes is 0, and one is negative.
inline std::vector<NamedRule> all_rules() {
  const std::vector<double> slopes{0.5, 0.0625, 0, 0.3, -0.01, 2};
  const auto grid = grid_of(300), odd = grid_of(300, true);
  return {{"a small cap", {0.7}},
          {"a large cap", {1e6}},
          {"alibi", {0, slopes}},
          {"alibi with exempt rows", {0, slopes, 11}},
          {"slopes of 0", {0, std::vector<double>(6, 0.0)}},
          {"alibi on a grid", {0, slopes, 0, grid}},
          {"alibi off the grid, exempt rows", {0, slopes, 5, odd}},
          {"a cap and alibi", {2.5, slopes, 3}},
          {"a cap and alibi on a grid", {20, slopes, 1, grid}}};
}

/// `test` with this rule. All items get combs of every 2nd row, from row 1 of a document that begins at row 4.
template <class AnyCase>
AnyCase with_rule(AnyCase test, const kernels::ScoreRule& rule) {
  test.rule = rule;
  for (core::WorkList& list : test.calls) {
    for (core::WorkItem& item : list.items) {
      item.first_row = 1;
      item.row_step = 2;
      item.document = 4;
    }
  }
  return test;
}

}  // namespace annulus::test
