// Few queries that see many keys: cases in which kernels split the keys.
#pragma once

#include "kernels/work_case.hpp"

namespace annulus::test {

/// Two batch entries, four query heads on two key/value heads. In the first call each of 70 queries sees the keys up to
/// itself among 330 keys, in the second call the keys after itself; in the third, 40 of the queries see 90 other keys.
/// The first 30 queries have smaller comb indices than all of the 330 keys. Query row 0 is in no item.
inline WorkCase few_queries_case(Index head_dim, DType type, core::Precision precision) {
  WorkCase test;
  test.shape = {2, 0, 4, 2, head_dim};
  test.query_rows = 90;
  test.key_rows = 520;
  test.type = type;
  test.precision = precision;
  test.output_scale = 0.5;
  const std::vector<core::Run> runs = {
      {0, 1, 1, 30},     {100, 31, 2, 15}, {280, 60, 1, 25},  // 0-2: 70 queries
      {30, 300, 1, 200}, {231, 3, 2, 130},                    // 3-4: 330 keys
      {7, 4, 5, 90},                                          // 5: 90 keys
  };
  const core::RowMap queries{0, 3, 70}, keys{3, 2, 330};
  for (const core::Band mask : {core::Band::upto, core::Band::after}) {
    core::WorkList list;
    list.runs = runs;
    list.items = {{queries, keys, 0, 0, 1, 2, mask}, {queries, keys, 1, 2, 1, 1, mask}};
    test.calls.push_back(list);
  }
  test.calls.push_back({runs, {{{1, 2, 40}, {5, 1, 90}, 1, 2, 1, 2, core::Band::all}}});
  test.fill();
  return test;
}

/// Enough keys that a GPU splits them: 70 queries of two heads, causal; the last query sees all 1,500 keys.
inline WorkCase many_keys_case(Index head_dim, DType type, core::Precision precision) {
  WorkCase test;
  test.shape = {1, 0, 2, 1, head_dim};
  test.query_rows = 70;
  test.key_rows = 1500;
  test.type = type;
  test.precision = precision;
  test.calls = {{{{1430, 0, 1, 70}, {0, 0, 1, 1500}}, {{{0, 1, 70}, {1, 1, 1500}, 0, 0, 1, 2, core::Band::upto}}}};
  test.fill();
  return test;
}

}  // namespace annulus::test
