// Tests coverage.hpp with planted errors: wrong work lists must not cover the definition.
#include <gtest/gtest.h>

#include "support/coverage.hpp"

namespace annulus::test {
namespace {

/// Two segments of 6 rows, r = 2, causal, two query heads of one key/value head; one rank holds all rows.
struct Whole {
  Whole() : drawn{12, longnet_layout({{6, 2}}, true, 12, 2)}, rows(pattern::contiguous_partition(12, 1)[0]) {
    drawn.layout.kv_heads = 1;
    lists = pattern::work_lists(drawn.layout, rows, pattern::KeyRows::raw(rows));
  }
  /// Whether the lists are what the definition requires.
  bool covers() const {
    Triples covered;
    return add_triples(lists, drawn.layout, rows, pattern::KeyRows::raw(rows), covered) &&
           covered == defined_triples(drawn);
  }
  core::WorkItem& item() { return lists[0].items.at(0); }
  core::Run& query_run() { return lists[0].runs.at(std::size_t(item().query.first_run)); }

  RandomLayout drawn;
  pattern::StoredRows rows;
  std::vector<core::WorkList> lists;
};

void expect_noticed(const char* error, void (*plant)(Whole&)) {
  Whole whole;
  ASSERT_TRUE(whole.covers());
  plant(whole);
  EXPECT_FALSE(whole.covers()) << error;
}

TEST(Coverage, EveryPlantedErrorIsNoticed) {
  expect_noticed("an item twice", [](Whole& w) { w.lists[0].items.push_back(w.item()); });
  expect_noticed("an item missing", [](Whole& w) { w.lists[0].items.pop_back(); });
  expect_noticed("a list missing", [](Whole& w) { w.lists.clear(); });
  expect_noticed("no mask", [](Whole& w) { w.item().band = core::Band::all; });
  expect_noticed("the other mask", [](Whole& w) { w.item().band = core::Band::after; });
  expect_noticed("a comb shifted by a row", [](Whole& w) { ++w.query_run().row; });
  expect_noticed("another stride", [](Whole& w) { ++w.query_run().stride; });
  expect_noticed("a row too few", [](Whole& w) { --w.query_run().count; });
  expect_noticed("another head", [](Whole& w) { w.item().head_first = 1 - w.item().head_first; });
  expect_noticed("another key/value head", [](Whole& w) { w.item().kv_head = 1; });
}

}  // namespace
}  // namespace annulus::test
