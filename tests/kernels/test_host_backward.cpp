// The host backward pass against the definition in double, on every instruction set this machine has.
#include <gtest/gtest.h>

#include <random>

#include "kernels/host_backward_case.hpp"
#include "support/tolerance.hpp"

namespace annulus::test {
namespace {

using core::Band;
using core::Precision;
using core::WorkItem;
using core::WorkList;

constexpr Band all_masks[] = {Band::all, Band::upto, Band::after};
const auto all_types = types_and_precisions();

/// The tolerance is that of the arithmetic, because inputs are exact in their storage type, and results are not stored.
void expect_right(const BackwardCase& test, const std::string& what) {
  const kernels::ReferenceResult forward = stored_forward(test);
  const Gradients expected = naive_gradients(test, forward);
  for (const InstructionSet set : kernels::host::usable_instruction_sets()) {
    SCOPED_TRACE(what + ", " + std::string(name_of(set)));
    expect_close(host_gradients(test, forward, {set}), expected, core::gradient_tolerance(test.precision));
  }
}

TEST(HostBackward, TheDefinitionIsTheDerivativeOfTheForwardPass) {
  BackwardCase test = backward_case(7, 9, 5, Band::upto);
  test.type = DType::float64;
  test.output_scale = 0.5;
  test.fill_all();
  expect_derivatives(test);
}

TEST(HostBackward, EveryHeadSizeInBothPrecisionsAndEveryMask) {
  for (const Index D : {1, 3, 5, 8, 16, 17, 31, 32, 33, 64, 80, 96, 127, 128, 255, 256, 257, 576}) {
    for (const Band mask : all_masks) {
      for (const auto& [type, precision] :
           {std::pair(DType::float64, Precision::float64), std::pair(DType::float32, Precision::float32)}) {
        BackwardCase test = backward_case(53, 59, D, mask);
        test.type = type;
        test.precision = precision;
        test.fill_all();
        expect_right(test, fmt::format("D {} {} {}", D, name_of(mask), name_of(type)));
      }
    }
  }
}

TEST(HostBackward, EveryStorageTypeWithEveryPrecision) {
  for (const auto& [type, precision] : all_types) {
    for (const Index D : {7, 48}) {
      BackwardCase test = backward_case(37, 41, D, Band::upto);
      test.type = type;
      test.precision = precision;
      test.output_scale = 0.25;
      test.fill_all();
      expect_right(test, fmt::format("{} in {}, D {}", name_of(type), name_of(precision), D));
    }
  }
}

TEST(HostBackward, NumbersOfRowsAndKeysAroundTheBlocks) {
  for (const Index rows : {1, 2, 5, 6, 7, 11, 12, 13, 95, 96, 97, 193}) {
    for (const Index keys : {1, 4, 11, 15, 16, 17, 31, 32, 33, 95, 96, 97, 191, 193}) {
      for (const Band mask : all_masks) {
        BackwardCase test = backward_case(rows, keys, 20, mask);
        test.fill_all();
        expect_right(test, fmt::format("{} rows, {} keys, {}", rows, keys, name_of(mask)));
      }
    }
  }
}

TEST(HostBackward, LongRowsCrossChunksAndTasks) {
  for (const Precision precision : {Precision::float32, Precision::float64}) {
    for (const Band mask : all_masks) {
      BackwardCase test = backward_case(1607, 1607, 64, mask);  // a prime; more than a task's keys
      test.type = precision == Precision::float32 ? DType::float32 : DType::float64;
      test.precision = precision;
      test.fill_all();
      expect_right(test, std::string(name_of(precision)) + " " + name_of(mask));
    }
  }
}

/// Query and key pieces of several runs, with gaps in t and strides in storage.
///   queries t = 3 4 5 | 9 | 20 ... 49 | 60 61, keys t = 0 1 | 4 ... 8 | 22 ... 41 | 61 62 63
BackwardCase gappy_case(Band mask) {
  BackwardCase test;
  test.shape = {2, 0, 1, 1, 24};
  test.query_rows = 150;
  test.key_rows = 64;
  WorkList list;
  list.runs = {{3, 50, 2, 3}, {9, 0, 1, 1}, {20, 60, 3, 30}, {60, 10, 7, 2},
               {0, 7, 1, 2},  {4, 9, 2, 5}, {22, 40, 1, 20}, {61, 0, 3, 3}};
  WorkItem item;
  item.query = {0, 4, 36};
  item.key = {4, 4, 30};
  item.band = mask;
  list.items = {item};
  test.calls = {list};
  test.fill_all();
  return test;
}

TEST(HostBackward, RunsWithGapsOnBothSides) {
  for (const Band mask : all_masks) expect_right(gappy_case(mask), name_of(mask));
}

TEST(HostBackward, RowsInNoItemAreNeitherReadNorWritten) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  BackwardCase test = gappy_case(Band::upto);
  const auto poison = [&](std::vector<double>& x, Index rows, const core::RowMap& map) {
    std::vector<bool> used(std::size_t(rows), false);
    for (const CombRow at : comb_rows(test.calls[0], map)) used[std::size_t(at.row)] = true;
    const std::size_t width = x.size() / std::size_t(2 * rows);
    for (std::size_t i = 0; i < x.size(); ++i)
      if (!used[i / width % std::size_t(rows)]) x[i] = nan;
  };
  const kernels::ReferenceResult forward = stored_forward(test);
  const Gradients expected = naive_gradients(test, forward);
  const WorkItem& item = test.calls[0].items[0];
  poison(test.q, test.query_rows, item.query);
  poison(test.dout, test.query_rows, item.query);
  poison(test.k, test.key_rows, item.key);
  poison(test.v, test.key_rows, item.key);
  for (const InstructionSet set : kernels::host::usable_instruction_sets())
    expect_close(host_gradients(test, forward, {set}), expected, 3e-5);
}

/// 6 query heads on 2 key heads: heads 0 2 4 read key head 0 and heads 1 5 key head 1; head 3 reads nothing.
BackwardCase grouped_case(Index rows) {
  BackwardCase test;
  test.shape = {2, 0, 6, 2, 40};
  test.query_rows = rows;
  test.key_rows = rows + 2;
  WorkList list;
  list.runs = {{0, 0, 1, rows}, {0, 0, 1, rows + 2}, {5, 11, 1, rows - 9}};
  WorkItem item;
  item.query = {0, 1, rows};
  item.key = {1, 1, rows + 2};
  item.head_stride = 2;
  item.head_count = 3;
  item.band = Band::upto;
  list.items = {item};
  item.kv_head = 1;
  item.head_first = 1;
  item.head_stride = 4;
  item.head_count = 2;
  item.key = {2, 1, rows - 9};
  item.band = Band::after;
  list.items.push_back(item);
  test.calls = {list};
  test.output_scale = 0.25;
  test.fill_all();
  return test;
}

TEST(HostBackward, GroupedHeadsSumIntoTheirKeyHead) {
  expect_right(grouped_case(29), "short");
  expect_right(grouped_case(131), "several chunks");
}

TEST(HostBackward, ChunksEndInsideTheHeadsOfARow) {
  for (const Index heads : {7, 200}) {
    BackwardCase test = backward_case(heads == 7 ? 40 : 5, 43, 8, Band::upto);
    test.shape.heads = heads;
    test.calls[0].items[0].head_count = heads;
    test.fill_all();
    expect_right(test, fmt::format("{} heads on one key head", heads));
  }
}

TEST(HostBackward, RowsWithoutKeysGetAndGiveNothing) {
  BackwardCase test = backward_case(11, 5, 8, Band::upto);
  test.calls[0].runs = {{0, 2, 1, 6}, {4, 0, 1, 5}};  // t = 0 ... 3 see none, rows 0 1 8 9 10 are in no item
  test.calls[0].items[0].query.count = 6;
  test.fill_all();
  expect_right(test, "rows without keys");
  // The normalizer decides: a row whose lse was -inf adds nothing to any gradient, even if an item lets it see keys.
  kernels::ReferenceResult forward = stored_forward(test);
  test.calls[0].items[0].band = Band::all;
  for (double& lse : forward.lse) lse = -std::numeric_limits<double>::infinity();
  const Gradients nothing = host_gradients(test, forward);
  for (const auto* gradient : {&nothing.dq, &nothing.dk, &nothing.dv})
    EXPECT_TRUE(std::all_of(gradient->begin(), gradient->end(), [](double x) { return x == 0; }));
}

TEST(HostBackward, EmptyPiecesAndListsChangeNothing) {
  BackwardCase test = backward_case(5, 5, 8, Band::all);
  WorkItem item = test.calls[0].items[0];
  item.key = {0, 0, 0};
  WorkList list = test.calls[0];
  list.items = {item};
  item = test.calls[0].items[0];
  item.query = {0, 0, 0};
  list.items.push_back(item);
  test.calls.push_back(list);
  test.calls.push_back(WorkList{});
  test.fill_all();
  expect_right(test, "empty pieces after a full list");
}

TEST(HostBackward, NoGradientOfTheLse) {
  BackwardCase test = backward_case(20, 20, 16, Band::upto);
  test.fill_all();
  test.dlse.clear();
  expect_right(test, "no dlse");
}

TEST(HostBackward, LargeScoresKeepProbabilitiesExact) {
  BackwardCase test = backward_case(40, 40, 16, Band::upto);
  test.type = DType::float64;
  test.precision = Precision::float64;
  test.fill_all(60);  // scores of several hundred: all probability lies on a key or two
  expect_right(test, "large scores");
}

TEST(HostBackward, ResultsAreRoundedToEveryStorageType) {
  BackwardCase test = grouped_case(29);
  const kernels::ReferenceResult forward = stored_forward(test);
  const Gradients exact = host_gradients(test, forward);
  for (const DType type : {DType::float32, DType::float16, DType::bfloat16}) {
    SCOPED_TRACE(core::name_of(type));
    const Gradients stored = host_gradients(test, forward, {.result = type});
    if (type == DType::float32) {
      expect_close(stored, exact, 1e-7);
    } else {
      expect_close(stored, exact, type == DType::float16 ? 5e-4 : 4e-3);  // half a unit in the last place
    }
  }
}

TEST(HostBackward, ResultsMayTakeThePlaceOfTheirAccumulators) {
  for (const Index D : {5, 40}) {
    const std::vector<double> sums = random_values(core::TensorId::q, 7 * 3 * D, DType::float32);
    const auto finish = [&](const DeviceTensor& from, const DeviceTensor& to) {
      kernels::host::host_finish_gradient(kernels::Gradient::dq, {1, 7, 3, 3, D}, Precision::float32, from.view,
                                          to.view, 0.25);
      return from_device(to.buffer, 7 * 3 * D, DType::float32);
    };
    const DeviceTensor from = to_device(sums, DType::float32, 7, 3, D);
    const DeviceTensor other = to_device(std::vector<double>(sums.size(), 0.0), DType::float32, 7, 3, D);
    const std::vector<double> elsewhere = finish(from, other);
    EXPECT_EQ(elsewhere[1], 0.25 * sums[1]);
    EXPECT_EQ(finish(from, from), elsewhere);
  }
}

// Bits. With one query row and one key in each call, products are added one after another in the order that
// backward.hpp promises. Any other cut, and any number of threads (CTest runs several), must give the same bits.

/// The case with its only item cut into calls: keys at `key_cuts`, the last keys first; and for each of these pieces of
/// keys, rows at `row_cuts`.
BackwardCase cut(const BackwardCase& whole, const std::vector<Index>& row_cuts, const std::vector<Index>& key_cuts) {
  BackwardCase test = whole;
  const WorkList list = whole.calls[0];
  const std::vector<CombRow> rows = comb_rows(list, list.items[0].query), keys = comb_rows(list, list.items[0].key);
  test.calls.clear();
  for (std::size_t k = key_cuts.size() - 1; k-- > 0;) {
    for (std::size_t r = 0; r + 1 < row_cuts.size(); ++r) {
      WorkList part;
      const auto piece = [&](const std::vector<CombRow>& of, Index begin, Index end) {
        const core::RowMap map{Index(part.runs.size()), end - begin, end - begin};
        for (Index i = begin; i < end; ++i) part.runs.push_back({of[std::size_t(i)].t, of[std::size_t(i)].row, 1, 1});
        return map;
      };
      WorkItem item = list.items[0];
      item.query = piece(rows, row_cuts[r], row_cuts[r + 1]);
      item.key = piece(keys, key_cuts[k], key_cuts[k + 1]);
      part.items = {item};
      test.calls.push_back(part);
    }
  }
  return test;
}

std::vector<Index> random_cuts(Index n, int parts, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Index> cuts{0, n};
  for (int i = 1; i < parts; ++i) cuts.push_back(Index(random() % unsigned(n)));
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  return cuts;
}

std::vector<Index> every(Index n) {
  std::vector<Index> cuts;
  for (Index i = 0; i <= n; ++i) cuts.push_back(i);
  return cuts;
}

/// One K/V head for 2 query heads, batch 2.
BackwardCase bits_case(Index rows, Index keys, Index head_dim, Band mask, Precision precision) {
  BackwardCase test = backward_case(rows, keys, head_dim, mask);
  test.shape.batch = 2;
  test.shape.heads = 2;
  test.calls[0].items[0].head_count = 2;
  test.precision = precision;
  test.type = precision == Precision::bfloat16 ? DType::bfloat16 : core::type_of(precision);
  test.fill_all(3);
  return test;
}

TEST(HostBackwardBits, PairByPairIsTheSame) {
  for (const Band mask : all_masks) {
    for (const Precision precision : host_precisions) {
      for (const InstructionSet set : kernels::host::usable_instruction_sets()) {
        SCOPED_TRACE(name_of(mask) + " " + std::string(name_of(precision)) + " " + std::string(name_of(set)));
        const BackwardCase test = bits_case(61, 113, 33, mask, precision);
        const kernels::ReferenceResult forward = stored_forward(test);
        expect_same_bits(host_gradients(test, forward, {.set = set, .finished = false, .in_blocks = true}),
                         host_gradients(cut(test, every(61), every(113)), forward,
                                        {.set = set, .finished = false, .in_blocks = true}));
      }
    }
  }
}

TEST(HostBackwardBits, AnyCutsAreTheSame) {
  for (const auto& [mask, precision] :
       {std::pair(Band::all, Precision::float32), std::pair(Band::upto, Precision::float32),
        std::pair(Band::after, Precision::float32), std::pair(Band::all, Precision::bfloat16),
        std::pair(Band::upto, Precision::bfloat16)}) {
    const BackwardCase test = bits_case(611, 947, 64, mask, precision);
    const kernels::ReferenceResult forward = stored_forward(test);
    for (const InstructionSet set : kernels::host::usable_instruction_sets()) {
      const Gradients expected = host_gradients(test, forward, {.set = set, .finished = false, .in_blocks = true});
      for (unsigned seed = 0; seed < 3; ++seed) {
        SCOPED_TRACE(fmt::format("{}, {}, cuts {}", name_of(mask), name_of(set), seed));
        const BackwardCase parts = cut(test, random_cuts(611, 4, seed), random_cuts(947, 5, seed + 10));
        expect_same_bits(host_gradients(parts, forward, {.set = set, .finished = false, .in_blocks = true}), expected);
      }
    }
  }
}

TEST(HostBackwardBits, UptoThenAfterIsTheOrderOfAll) {
  // Not causal, keys in the order x ... 0, N - 1 ... x + 1: each (query, key) pair is in exactly one of the two lists.
  BackwardCase halves = bits_case(100, 100, 16, Band::upto, Precision::float64);
  const kernels::ReferenceResult forward = [&] {
    BackwardCase all = halves;
    all.calls[0].items[0].band = Band::all;
    return stored_forward(all);
  }();
  halves.calls.push_back(halves.calls[0]);
  halves.calls[1].items[0].band = Band::after;
  expect_close(host_gradients(halves, forward), naive_gradients(halves, forward), 1e-11);
}

}  // namespace
}  // namespace annulus::test
