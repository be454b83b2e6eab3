// Small cases with everything that is difficult for kernels.
#pragma once

#include <vector>

#include "kernels/backward_case.hpp"

namespace annulus::test {

// A forward case with two batch entries, four query heads on two key/value heads, two calls, row maps of several runs
// with gaps in t (comb indices) and in rows, and items without keys or without queries. Query rows 0 ... 3, 40 and
// others are in no item.
inline WorkCase awkward_case(Index head_dim, DType type, core::Precision precision, bool causal, Index value_dim = 0) {
  WorkCase test;
  test.shape = {2, 0, 4, 2, head_dim, value_dim};
  test.query_rows = 150;
  test.key_rows = 170;
  test.type = type;
  test.precision = precision;
  const std::vector<core::Run> runs = {
      {3, 4, 2, 18},   {24, 42, 1, 30},  {150, 74, 3, 25},  // runs 0-2: 73 queries
      {0, 5, 2, 19},   {90, 43, 1, 28},                     // runs 3-4: 47 queries; rows 5, 7, ... 41, then 43 ... 70
      {0, 7, 1, 15},   {17, 30, 2, 25},  {80, 85, 1, 41},   // runs 5-7: 81 keys
      {40, 169, 1, 1}, {95, 130, 3, 12},                    // runs 8-9: 13 keys
  };
  const core::Band mask = causal ? core::Band::upto : core::Band::all;
  const core::RowMap queries{0, 3, 73}, few_queries{3, 2, 47}, keys{5, 3, 81}, few_keys{8, 2, 13}, none{0, 0, 0};
  core::WorkList first, second;
  first.runs = second.runs = runs;
  first.items = {{queries, keys, 0, 0, 1, 1, mask},      // head 0
                 {few_queries, keys, 0, 1, 1, 1, mask},  // head 1
                 {queries, few_keys, 1, 2, 1, 2, mask},  // heads 2 and 3
                 {none, keys, 1, 2, 1, 2, mask}};
  second.items = {{queries, few_keys, 0, 0, 1, 2, mask},
                  {few_queries, none, 1, 2, 1, 2, mask},
                  {few_queries, keys, 1, 2, 1, 2, mask}};
  test.calls = {first, second};
  test.fill();
  return test;
}

// A backward case with two batch entries, six query heads on two key/value heads, three calls, and otherwise the
// properties of awkward_case().
inline BackwardCase awkward_backward_case(Index head_dim, DType type, core::Precision precision, core::Band mask,
                                          Index value_dim = 0) {
  BackwardCase test;
  test.shape = {2, 0, 6, 2, head_dim, value_dim};
  test.query_rows = 150;
  test.key_rows = 170;
  test.type = type;
  test.precision = precision;
  test.output_scale = 0.5;
  const std::vector<core::Run> runs = {
      {3, 4, 2, 18},   {24, 42, 1, 30},  {70, 74, 3, 25},  // runs 0-2: 73 queries
      {0, 5, 2, 19},   {50, 43, 1, 28},                    // runs 3-4: 47 queries; rows 5, 7, ... 41, then 43 ... 70
      {0, 7, 1, 15},   {17, 30, 2, 25},  {60, 85, 1, 41},  // runs 5-7: 81 keys
      {40, 169, 1, 1}, {75, 130, 3, 12},                   // runs 8-9: 13 keys
  };
  const core::RowMap queries{0, 3, 73}, few_queries{3, 2, 47}, keys{5, 3, 81}, few_keys{8, 2, 13}, none{0, 0, 0};
  test.calls.resize(3);
  for (core::WorkList& list : test.calls) list.runs = runs;
  test.calls[0].items = {{queries, keys, 0, 0, 2, 2, mask},      // heads 0 and 2
                         {queries, few_keys, 1, 3, 1, 3, mask},  // heads 3, 4, 5
                         {none, keys, 1, 3, 1, 3, mask}};
  test.calls[1].items = {{few_queries, keys, 0, 1, 1, 1, mask},  // head 1
                         {few_queries, none, 1, 2, 1, 2, mask},
                         {few_queries, keys, 1, 4, 1, 2, mask}};
  test.calls[2].items = {{queries, few_keys, 0, 0, 1, 2, mask}};
  test.fill_all();
  return test;
}

}  // namespace annulus::test
