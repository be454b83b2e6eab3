// Few query rows that see many keys, which are cut into parts, compared with the definition.
#include "annulus/kernels/host/key_parts.hpp"
#include "kernels/band_case.hpp"
#include "kernels/host_backward_case.hpp"
#include "kernels/host_case.hpp"
#include "kernels/rule_case.hpp"
#include "support/tolerance.hpp"

namespace annulus::test {
namespace {

using core::Band;
using kernels::key_parts;
using kernels::host::in_parts;
using kernels::host::key_parts;

constexpr Index keys = 18'001;

/// Two batch entries; 5 query rows of heads 0 and 1, which read keys in two runs, and of head 2, which reads few.
WorkCase few_rows(Index head_dim, Index value_dim, const Band& band) {
  WorkCase test{{2, 0, 4, 2, head_dim, value_dim}, 7, keys + 3};
  core::WorkList list;
  list.runs = {{4000, 1, 1, 3}, {10'000, 4, 1, 2}, {0, 2, 1, 5000}, {5100, 5003, 1, keys - 5000}, {30, 0, 1, 2}};
  list.items = {{{0, 2, 5}, {2, 2, keys}, 0, 0, 1, 2, band}, {{0, 2, 5}, {4, 1, 2}, 1, 2, 1, 1, band}};
  test.calls = {list};
  test.fill();
  return test;
}

Index parts_of(const core::Shape& shape, Index rows) { return key_parts(kernels::Backend::host, shape, rows); }

TEST(HostParts, OfFewRowsAndManyKeysAlone) {
  EXPECT_EQ(parts_of({1, 200'000, 1, 1, 8, 8}, 64), 24);
  EXPECT_EQ(parts_of({1, 200'000, 1, 1, 8, 8}, 192 * 8), 8);
  EXPECT_EQ(parts_of({2, 200'000, 8, 4, 8, 8}, 64), 8);
  EXPECT_EQ(parts_of({1, 8192, 1, 1, 8, 8}, 8192), 1);
  EXPECT_EQ(parts_of({1, 16'383, 1, 1, 8, 8}, 64), 1);
  EXPECT_EQ(parts_of({1, 200'000, 1, 1, 8, 8}, 0), 1);
  EXPECT_EQ(parts_of({1, 200'000, 0, 0, 8, 8}, 64), 1);
  EXPECT_EQ(parts_of({1, 200'000, 64, 1, 128, 128}, 40), 4);  // 5 parts would take more than 32 MiB
  EXPECT_EQ(key_parts(kernels::Backend::device, {1, 200'000, 1, 1, 8, 8}, 64), 1);
}

TEST(HostParts, OfListsWithFewKeysAreFewer) {
  const core::WorkList list = few_rows(8, 8, Band::all).calls[0];
  EXPECT_EQ(key_parts(list, 24), 2);
  EXPECT_EQ(key_parts(list, 1), 1);
  EXPECT_EQ(key_parts(core::WorkList{}, 24), 1);
}

TEST(HostParts, AreThePiecesOfTheKeysFromTheLastOnesDown) {
  core::WorkList list;
  list.runs = {{0, 3, 1, 2}, {0, 0, 2, 5}, {7, 20, 1, 5}};
  list.items = {{{0, 1, 2}, {1, 2, 10}}};
  const core::WorkList parts = in_parts(list, 6, 3);
  const std::vector<core::Run> expected{{0, 3, 1, 2},  {8, 21, 1, 4},                 // keys 6 ... 9 of ten
                                        {0, 9, 1, 2},  {3, 6, 2, 2},  {7, 20, 1, 1},  // 3 ... 5
                                        {0, 15, 1, 2}, {0, 0, 2, 3}};
  EXPECT_EQ(parts.runs, expected);
  ASSERT_EQ(parts.items.size(), 3u);
  EXPECT_EQ(parts.items[1].query, (core::RowMap{2, 1, 2}));
  EXPECT_EQ(parts.items[1].key, (core::RowMap{3, 2, 3}));
}

void expect_definition_in_parts(BackwardCase test) {
  test.fill_all();
  test.key_parts = 2;
  expect_both_passes(test, "in parts");
}

TEST(HostParts, GiveTheDefinition) {
  expect_definition_in_parts({few_rows(24, 24, Band::all)});
  expect_definition_in_parts({few_rows(24, 40, Band::upto)});
  for (const auto& [type, precision] : types_and_precisions()) {
    BackwardCase test{few_rows(8, 16, Band{3000, 100})};
    test.type = type;
    test.precision = precision;
    expect_definition_in_parts(test);
  }
}

// A second call continues from the states of the first; scores have a cap and a bias.
TEST(HostParts, GoOnFromEarlierKeys) {
  BackwardCase test{with_rule(few_rows(16, 16, Band::all), {3, {0.5, 0.001, 0, 0.01}})};
  core::WorkList more = test.calls[0];
  more.runs = {more.runs[0], more.runs[1], {20'000, keys + 3, 1, 18'000}};
  for (core::WorkItem& item : more.items) item.key = {2, 1, 18'000};
  test.calls.push_back(more);
  test.key_rows = keys + 3 + 18'000;
  test.fill_all();
  test.key_parts = 2;
  expect_both_passes(test, "two calls");
}

}  // namespace
}  // namespace annulus::test
