// The host back end against the definition in double, on every instruction set this machine has.
#include <gtest/gtest.h>

#include "kernels/host_case.hpp"
#include "support/tolerance.hpp"

namespace annulus::test {
namespace {

using core::Precision;
using core::WorkItem;
using core::WorkList;

void expect_right(const HostCase& test, const std::string& what) {
  const kernels::ReferenceResult expected = naive_answer(test);
  const double tolerance = std::max(core::forward_tolerance(test.precision), core::forward_tolerance(test.type));
  for (const InstructionSet set : kernels::host::usable_instruction_sets()) {
    SCOPED_TRACE(what + ", " + std::string(name_of(set)));
    const kernels::ReferenceResult actual = host_answer(test, set);
    EXPECT_TRUE(close_to(actual.out, expected.out, tolerance)) << "out";
    EXPECT_TRUE(close_to(actual.lse, expected.lse, tolerance)) << "lse";
  }
}

constexpr Index head_sizes[] = {1, 3, 5, 8, 31, 32, 33, 64, 80, 96, 127, 128, 255, 256, 257, 320, 576};
const auto all_types = types_and_precisions();

TEST(HostAttend, EveryHeadSizeInBothPrecisions) {
  for (const Index D : head_sizes) {
    for (const bool causal : {false, true}) {
      for (const auto& [type, precision] :
           {std::pair(DType::float64, Precision::float64), std::pair(DType::float32, Precision::float32)}) {
        HostCase test = plain_case(53, 53, D, causal);
        test.type = type;
        test.precision = precision;
        test.fill();
        expect_right(test, fmt::format("D {} causal {} {}", D, causal, name_of(type)));
      }
    }
  }
}

TEST(HostAttend, EveryStorageTypeWithEveryPrecision) {
  for (const auto& [type, precision] : all_types) {
    for (const Index D : {7, 48}) {
      HostCase test = plain_case(37, 41, D, false);
      test.type = type;
      test.precision = precision;
      test.fill();
      expect_right(test, fmt::format("{} in {}, D {}", name_of(type), name_of(precision), D));
    }
  }
}

TEST(HostAttend, NumbersOfRowsAndKeysAroundTheBlocks) {
  for (const Index rows : {1, 2, 5, 6, 7, 12, 13, 97}) {
    for (const Index keys : {1, 4, 15, 16, 17, 31, 32, 33, 255, 256, 257, 521}) {
      for (const bool causal : {false, true}) {
        HostCase test = plain_case(rows, keys, 20, causal);
        test.fill();
        expect_right(test, fmt::format("{} rows, {} keys, causal {}", rows, keys, causal));
      }
    }
  }
}

TEST(HostAttend, LongCausalRowsCrossTilesAndTasks) {
  for (const Precision precision : {Precision::float32, Precision::float64}) {
    HostCase test = plain_case(1607, 1607, 64, true);  // a prime; more than a task's rows
    test.type = precision == Precision::float32 ? DType::float32 : DType::float64;
    test.precision = precision;
    test.fill();
    expect_right(test, std::string(name_of(precision)));
  }
}

/// Query and key pieces of several runs, with gaps in t and strides in storage.
///   queries t = 3 4 5 | 9 | 20 ... 49 | 60 61, keys t = 0 1 | 4 ... 8 | 22 ... 41 | 61 62 63
WorkList gappy_list(bool causal) {
  WorkList list;
  list.runs = {{3, 50, 2, 3}, {9, 0, 1, 1}, {20, 60, 3, 30}, {60, 10, 7, 2},
               {0, 7, 1, 2},  {4, 9, 2, 5}, {22, 40, 1, 20}, {61, 0, 3, 3}};
  WorkItem item;
  item.query = {0, 4, 36};
  item.key = {4, 4, 30};
  item.band = causal ? core::Band::upto : core::Band::all;
  list.items = {item};
  return list;
}

TEST(HostAttend, RunsWithGapsOnBothSides) {
  for (const bool causal : {false, true}) {
    HostCase test{{2, 0, 1, 1, 24}, 150, 64};
    test.calls = {gappy_list(causal)};
    test.fill();
    expect_right(test, fmt::format("causal {}", causal));
  }
}

TEST(HostAttend, RowsSeeTheKeysAfterThem) {
  for (const Precision precision : {Precision::float32, Precision::float64}) {
    HostCase gappy{{2, 0, 1, 1, 24}, 150, 64};
    gappy.calls = {gappy_list(true)};
    gappy.calls[0].items[0].band = core::Band::after;
    gappy.precision = precision;
    gappy.fill();
    expect_right(gappy, "runs with gaps");
    for (const Index n : {1, 2, 13, 49, 100, 303}) {
      HostCase test = plain_case(n, n, 20, true);
      test.calls[0].items[0].band = core::Band::after;  // the last row sees no key
      test.precision = precision;
      test.fill();
      expect_right(test, fmt::format("{} rows", n));
      test.calls.push_back(plain_case(n, n, 20, true).calls[0]);  // with `upto` as well: all keys
      expect_right(test, fmt::format("{} rows, both masks", n));
    }
  }
}

TEST(HostAttend, GroupedHeadsWithStrideShareTheirKeys) {
  // 6 query heads on 2 key heads: heads 0 2 4 read key head 0 and heads 1 5 key head 1; head 3 reads nothing.
  HostCase test{{2, 0, 6, 2, 40}, 29, 31};
  WorkList list;
  list.runs = {{0, 0, 1, 29}, {0, 0, 1, 31}, {5, 11, 1, 20}};
  WorkItem item;
  item.query = {0, 1, 29};
  item.key = {1, 1, 31};
  item.head_stride = 2;
  item.head_count = 3;
  item.band = core::Band::upto;
  list.items = {item};
  item.kv_head = 1;
  item.head_first = 1;
  item.head_stride = 4;
  item.head_count = 2;
  item.key = {2, 1, 20};
  item.band = core::Band::all;
  list.items.push_back(item);
  test.calls = {list};
  test.output_scale = 0.25;
  test.fill();
  expect_right(test, "grouped heads");
}

TEST(HostAttend, RowsWithoutKeysStayEmpty) {
  HostCase test = plain_case(11, 5, 8, true);
  test.calls[0].runs = {{0, 2, 1, 6}, {4, 0, 1, 5}};  // t = 0 ... 3 see none, rows 0 1 8 are in no item
  test.calls[0].items[0].query.count = 6;
  WorkItem none = test.calls[0].items[0];
  none.key.count = 0;
  none.key.runs = 0;
  none.head_first = 0;
  none.query = {2, 1, 2};
  test.calls[0].runs.push_back({0, 9, 1, 2});
  test.calls[0].items.push_back(none);
  test.fill();
  expect_right(test, "rows without keys");
  const kernels::ReferenceResult actual = host_answer(test, kernels::host::best_instruction_set());
  EXPECT_EQ(actual.lse[2], -std::numeric_limits<double>::infinity());
  EXPECT_GT(actual.lse[7], -100);
}

TEST(HostAttend, EmptyListChangesNothing) {
  HostCase test = plain_case(5, 5, 8, false);
  test.calls.push_back(WorkList{});
  test.fill();
  expect_right(test, "an empty list after a full one");
}

TEST(HostAttend, KeysInAnyNumberOfCalls) {
  const Index n = 300;
  for (const Index pieces : {1, 2, 3, 7, 300}) {
    HostCase test = plain_case(n, n, 33, true);
    const WorkList whole = test.calls[0];
    test.calls.clear();
    for (Index p = pieces; p-- > 0;) {  // the last keys first; rows meet their maximum in different calls
      const Index begin = n * p / pieces, end = n * (p + 1) / pieces;
      WorkList list = whole;
      list.runs[1] = {begin, begin, 1, end - begin};
      list.items[0].key.count = end - begin;
      test.calls.push_back(list);
    }
    test.fill(4);
    expect_right(test, fmt::format("{} calls", pieces));
  }
}

}  // namespace
}  // namespace annulus::test
