// Statistics of work lists by their definition, for the tests of every back end: attention that keys receive, and the
// largest weights of rows. The work lists are as attend_statistics() requires. A key is named by its comb index.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "annulus/kernels/statistics.hpp"
#include "kernels/backward_case.hpp"

namespace annulus::test {

/// received: (B, key_rows, Hkv, group). weights, rows: `keys` entries for every (batch, query row, head); rows
/// are comb indices.
struct StatisticsAnswer {
  std::vector<double> received, weights;
  std::vector<Index> rows;
};

/// A case with two batch entries, three query heads on one key/value head and two on the other, and row maps of several
/// runs with gaps in t (comb indices) and in rows. Query rows 0 ... 3 are in no item.
inline WorkCase statistics_case(Index head_dim, core::Band mask, DType type, core::Precision precision) {
  WorkCase test{{2, 0, 6, 2, head_dim}, 150, 170, type, precision};
  core::WorkList list;
  list.runs = {{3, 4, 2, 18}, {24, 42, 1, 30},                   // 0-1: 48 queries
               {0, 7, 1, 15}, {17, 30, 2, 25}, {60, 85, 1, 41},  // 2-4: 81 keys
               {40, 5, 1, 1}, {75, 130, 3, 12}};                 // 5-6: 13 keys
  list.items = {{{0, 2, 48}, {2, 3, 81}, 0, 0, 1, 3, mask},      // heads 0 1 2
                {{0, 2, 48}, {5, 2, 13}, 1, 3, 2, 2, mask}};     // heads 3 5
  test.calls = {list};
  test.fill();
  return test;
}

/// The statistics by their definition, with the `keys` largest weights of every row.
inline StatisticsAnswer naive_statistics(const WorkCase& test, const std::vector<double>& lse, Index keys) {
  const core::Shape& s = test.shape;
  StatisticsAnswer answer{std::vector<double>(std::size_t(s.batch * test.key_rows * s.heads)), {}, {}};
  std::map<Index, Index> name;  // stored key row -> comb index
  for (const core::WorkItem& item : test.calls[0].items) {
    for (const CombRow key : comb_rows(test.calls[0], item.key)) name[key.row] = key.t;
  }
  std::vector<std::vector<std::pair<double, Index>>> seen(std::size_t(test.states()));
  for_each_meeting(test, [&](std::size_t row, std::size_t key, const Meeting& at) {
    const double p = std::exp(score_of(test, row, key, at).value - lse[row]);
    const Index head = Index(row) % s.heads;
    answer.received[key * std::size_t(s.group()) + std::size_t(head % s.group())] += p;
    seen[row].emplace_back(-p, name.at(Index(key) / s.kv_heads % test.key_rows));
  });
  for (auto& list : seen) {
    std::sort(list.begin(), list.end());
    for (Index i = 0; i < keys; ++i) {
      const bool there = i < Index(list.size());
      answer.weights.push_back(there ? -list[std::size_t(i)].first : 0);
      answer.rows.push_back(there ? list[std::size_t(i)].second : -1);
    }
  }
  return answer;
}

/// The statistics that `attend(list, operands, views)` makes, called for each list of the case.
template <class Attend>
StatisticsAnswer made_statistics(const WorkCase& test, const std::vector<double>& lse, Index keys,
                                 const Attend& attend) {
  const core::Shape& s = test.shape;
  const DeviceTensor q = to_device(test.q, test.type, test.query_rows, s.heads, s.head_dim),
                     k = to_device(test.k, test.type, test.key_rows, s.kv_heads, s.head_dim),
                     normalizers = to_device(normalizers_of(lse), test.sums(), test.query_rows, s.heads, 2);
  const std::vector<double> zeros(std::size_t(s.batch * test.key_rows * s.heads));
  const DeviceTensor received = to_device(zeros, DType::float64, test.key_rows, s.kv_heads, s.group());
  const Index entries = test.states() * keys;
  const core::Buffer weights("test tensor", entries * Index(core::bytes_of(test.sums()))),
      rows("test tensor", entries * Index(sizeof(Index)));
  kernels::StatisticOperands operands{q.view, k.view, normalizers.view, test.scale(), s.group()};
  operands.rule = test.call_rule();
  const kernels::StatisticViews views{received.view, weights.data(), static_cast<Index*>(rows.data()), keys};
  if (keys > 0) kernels::clear_top(s, test.query_rows, test.precision, views);
  for (const core::WorkList& list : test.calls) attend(list, operands, views);
  StatisticsAnswer answer;
  answer.received = from_device(received.buffer, Index(zeros.size()), DType::float64);
  if (keys == 0) return answer;
  const core::TensorView to = core::contiguous_view(weights.data(), test.sums(), test.query_rows, s.heads, keys);
  kernels::finish_top(s, test.query_rows, test.precision, views, normalizers.view, to);
  answer.weights = from_device(weights, entries, test.sums());
  answer.rows.resize(std::size_t(entries));
  core::copy_to_host(answer.rows.data(), rows.data(), rows.bytes());
  return answer;
}

/// Weights must be right. Rows may differ in 1 of 200 entries, because two weights may be equal up to rounding.
inline void expect_close(const StatisticsAnswer& found, const StatisticsAnswer& expected, double tolerance) {
  EXPECT_TRUE(close_to(found.received, expected.received, tolerance)) << "received";
  EXPECT_TRUE(close_to(found.weights, expected.weights, tolerance)) << "weights";
  ASSERT_EQ(found.rows.size(), expected.rows.size());
  std::size_t other = 0;
  for (std::size_t i = 0; i < expected.rows.size(); ++i) {
    EXPECT_EQ(found.rows[i] == -1, expected.rows[i] == -1) << i;
    other += found.rows[i] != expected.rows[i];
  }
  EXPECT_LE(other, expected.rows.size() / 200);
}

}  // namespace annulus::test
