// The device teams' gradients against the definition: on Serial, and on OpenMP with all threads in one team (CTest runs
// this program with one thread and with four), with the host's tuning table and with the GPU's. Builds for GPUs run it
// on the GPU only, because no other space can read the tensors' memory.
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "kernels/band_case.hpp"
#include "kernels/device_backward_case.hpp"
#include "kernels/rule_case.hpp"
#include "kernels/unseen_case.hpp"

namespace annulus::test {
namespace {

using core::Band;
using core::Precision;

constexpr Band all_masks[] = {Band::all, Band::upto, Band::after};

double tolerance(const BackwardCase& test) {
  const bool exact = test.precision == Precision::float64;
  return core::gradient_tolerance(exact ? DType::float64 : DType::float32);
}

std::string describe(const BackwardCase& test) {
  return std::string(core::name_of(test.type)) + " accumulated in " + std::string(core::name_of(test.precision)) +
         ", D = " + std::to_string(test.shape.head_dim) + ", mask " + name_of(test.calls[0].items[0].band);
}

template <class Backend>
class DeviceBackward : public testing::Test {
 public:
  using Space = typename Backend::Space;
  using Tuning = typename Backend::Tuning;
  static Gradients gradients(const BackwardCase& test, const BackwardAnswer& known) {
    return device_gradients<Space, Tuning>(test, known, Backend::team_size());
  }
  static void expect_right(const BackwardCase& test, double allowed, const std::string& what) {
    SCOPED_TRACE(what);
    const BackwardAnswer expected = naive_backward(test);
    expect_close(gradients(test, expected), expected.gradients, allowed);
  }
};
TYPED_TEST_SUITE(DeviceBackward, Backends);

TYPED_TEST(DeviceBackward, StatisticsOfTheSamePairs) {
  Index keys = 0;
  for (const Index head_dim : {3, 40}) {
    for (const Band mask : all_masks) {
      for (const Precision precision : number_precisions) {
        SCOPED_TRACE(fmt::format("D {}, mask {}, {} keys listed", head_dim, name_of(mask), keys));
        const WorkCase test = statistics_case(head_dim, mask, core::type_of(precision), precision);
        const std::vector<double> lse = naive_answer(test).lse;
        const auto attend = [&](const auto& list, const auto& operands, const auto& views) {
          kernels::device::launch_attend_statistics<typename TypeParam::Space, typename TypeParam::Tuning>(
              list, test.shape, test.query_rows, precision, operands, views, {}, TypeParam::team_size());
        };
        expect_close(made_statistics(test, lse, keys, attend), naive_statistics(test, lse, keys),
                     core::forward_tolerance(test.type));
        keys = (keys + 5) % 12;
      }
    }
  }
}

TYPED_TEST(DeviceBackward, BandsWithTwoEnds) {
  for (const Precision precision : number_precisions) {
    for (const Band& band : window_bands) {
      const DType type = core::type_of(precision);
      const BackwardCase test = with_band(awkward_backward_case(20, type, precision, Band::all), band);
      this->expect_right(test, tolerance(test), name_of(band));
      const WorkCase statistics = with_band(statistics_case(20, Band::all, type, precision), band);
      const std::vector<double> lse = naive_answer(statistics).lse;
      const auto attend = [&](const auto& list, const auto& operands, const auto& views) {
        kernels::device::launch_attend_statistics<typename TypeParam::Space, typename TypeParam::Tuning>(
            list, statistics.shape, statistics.query_rows, precision, operands, views, {}, TypeParam::team_size());
      };
      expect_close(made_statistics(statistics, lse, 5, attend), naive_statistics(statistics, lse, 5),
                   core::forward_tolerance(type));
    }
  }
}

TYPED_TEST(DeviceBackward, RulesOfScores) {
  std::size_t turn = 0;
  for (const DType type : core::all_dtypes) {
    const Precision precision = type == DType::float64 ? Precision::float64 : Precision::float32;
    for (const auto& [name, rule] : all_rules()) {
      const Band band = turn++ % 2 == 0 ? Band::upto : Band{40, 25};
      const BackwardCase test = with_rule(awkward_backward_case(20, type, precision, band), rule);
      this->expect_right(test, tolerance(test), describe(test) + ", " + name);
    }
  }
}

TYPED_TEST(DeviceBackward, StatisticsAreOfChangedScores) {
  for (const Precision precision : number_precisions) {
    for (const auto& [name, rule] : all_rules()) {
      SCOPED_TRACE(name);
      const WorkCase test = with_rule(statistics_case(24, Band::upto, core::type_of(precision), precision), rule);
      const std::vector<double> lse = naive_answer(test).lse;
      StatisticsAnswer found =
          made_statistics(test, lse, 6, [&](const auto& list, const auto& operands, const auto& views) {
            kernels::device::launch_attend_statistics<typename TypeParam::Space, typename TypeParam::Tuning>(
                list, test.shape, test.query_rows, precision, operands, views, {}, TypeParam::team_size());
          });
      for (Index& row : found.rows)
        if (row >= 0) row = (row - 5) / 2;  // from a row of the sequence to the comb index that `expected` has
      expect_close(found, naive_statistics(test, lse, 6), core::forward_tolerance(test.type));
    }
  }
}

TYPED_TEST(DeviceBackward, WhatNoPairReadsStaysOut) {
  for (const DType type : core::all_dtypes) {
    for (const Band mask : {Band::upto, Band::after}) {
      const BackwardCase test = awkward_backward_case(20, type, Precision::float32, mask);
      const BackwardAnswer known = naive_backward(test);
      expect_unseen_stay_out_of_gradients(test, describe(test),
                                          [&](const BackwardCase& one) { return this->gradients(one, known); });
    }
  }
}

TYPED_TEST(DeviceBackward, WhatNoPairReadsStaysOutOfStatistics) {
  for (const Precision precision : number_precisions) {
    const WorkCase test = statistics_case(24, Band::upto, core::type_of(precision), precision);
    expect_unseen_stay_out_of_statistics(
        test, std::string(name_of(precision)), [&](const WorkCase& one, const std::vector<double>& lse) {
          return made_statistics(one, lse, 3, [&](const auto& list, const auto& operands, const auto& views) {
            kernels::device::launch_attend_statistics<typename TypeParam::Space, typename TypeParam::Tuning>(
                list, one.shape, one.query_rows, precision, operands, views, {}, TypeParam::team_size());
          });
        });
  }
}

TYPED_TEST(DeviceBackward, TeamsHaveAllThreads) { expect_teams_of_all_threads<TypeParam>(); }

TYPED_TEST(DeviceBackward, EveryTypeAndMask) {
  for (const DType type : core::all_dtypes) {
    for (const Precision precision : {Precision::float64, Precision::float32}) {
      for (const Band mask : all_masks) {
        const BackwardCase test = awkward_backward_case(20, type, precision, mask);
        this->expect_right(test, tolerance(test), describe(test));
      }
    }
  }
}

TYPED_TEST(DeviceBackward, EveryHeadSize) {
  for (const Index head_dim : {1, 5, 32, 64, 127, 256, 576}) {
    for (const Precision precision : {Precision::float64, Precision::float32}) {
      const BackwardCase test = awkward_backward_case(head_dim, DType::float64, precision, Band::upto);
      this->expect_right(test, tolerance(test), describe(test));
    }
  }
}

TYPED_TEST(DeviceBackward, MasksTogetherAreAllKeys) {
  BackwardCase test = awkward_backward_case(5, DType::float64, Precision::float64, Band::all);
  const BackwardAnswer expected = naive_backward(test);
  std::vector<core::WorkList> halves;
  for (const core::WorkList& list : test.calls) {
    for (const Band mask : {Band::upto, Band::after}) {
      halves.push_back(list);
      for (core::WorkItem& item : halves.back().items) item.band = mask;
    }
  }
  test.calls = halves;
  expect_close(this->gradients(test, expected), expected.gradients, 1e-13);
}

TYPED_TEST(DeviceBackward, RowsThatSeeNothingGiveNothing) {
  // Keys from comb index 10 on: with `upto` rows 0 ... 9 see none. Whatever is stored as their delta does not matter.
  BackwardCase test;
  test.shape = {1, 0, 2, 1, 3};
  test.query_rows = test.key_rows = 20;
  test.calls.resize(1);
  test.calls[0].runs = {{0, 0, 1, 20}, {10, 10, 1, 10}};
  test.calls[0].items = {{{0, 1, 20}, {1, 1, 10}, 0, 0, 1, 2, Band::upto}};
  test.fill_all();
  BackwardAnswer known = naive_backward(test);
  for (std::size_t i = 0; i < 10 * 2; ++i) {
    ASSERT_EQ(known.lse[i], -std::numeric_limits<double>::infinity());
    known.delta[i] = i % 2 ? std::nan("") : std::numeric_limits<double>::infinity();
  }
  expect_close(this->gradients(test, known), known.gradients, tolerance(test));

  // Only the normalizer says that row 0 saw no key: the list of the forward pass has row 1 only, the other has both
  // rows.
  test.query_rows = test.key_rows = 2;
  test.calls[0].runs = {{1, 1, 1, 1}, {0, 0, 1, 2}};
  test.calls[0].items = {{{0, 1, 1}, {1, 1, 2}, 0, 0, 1, 2, Band::all}};
  test.fill_all();
  known = naive_backward(test);
  test.calls[0].items[0].query = {1, 1, 2};
  expect_close(this->gradients(test, known), known.gradients, tolerance(test));
}

TYPED_TEST(DeviceBackward, LargeScores) {
  BackwardCase test = awkward_backward_case(32, DType::float64, Precision::float64, Band::upto);
  test.fill_all(500);
  this->expect_right(test, 1e-11, "amplitude 500 in float64");
}

// One item must give the same bits as the same pairs cut into several calls, because the sums have the same terms in
// the same order: dq adds the highest keys first, dk and dv add the lowest queries first.
TYPED_TEST(DeviceBackward, BitsDoNotDependOnCuts) {
  BackwardCase whole;
  whole.shape = {1, 0, 3, 1, 9};
  constexpr Index n = 290;  // two blocks of rows: the first is cut twice, the second is incomplete
  whole.query_rows = whole.key_rows = n;
  whole.calls.resize(1);
  whole.calls[0].runs = {{0, 0, 1, n}, {0, 0, 1, 13}, {13, 13, 1, 187}, {200, 200, 1, 90}};
  whole.fill_all();
  const auto item = [](core::RowMap query, core::RowMap key, Band mask) {
    return core::WorkItem{query, key, 0, 0, 1, 3, mask};
  };
  const core::RowMap everything{0, 1, n};
  const core::RowMap parts[] = {{1, 1, 13}, {2, 1, 187}, {3, 1, 90}};
  for (const Band mask : all_masks) {
    SCOPED_TRACE(name_of(mask));
    whole.calls[0].items = {item(everything, everything, mask)};
    const BackwardAnswer known = naive_backward(whole);
    const Gradients expected = this->gradients(whole, known);
    expect_close(expected, known.gradients, tolerance(whole));
    const Gradients other = device_gradients<OtherBackend::Space, OtherTuning>(whole, known, OtherBackend::team_size());
    expect_same_bits(other, expected);

    BackwardCase by_keys = whole, by_queries = whole;
    by_keys.calls = by_queries.calls = {whole.calls[0], whole.calls[0], whole.calls[0]};
    for (int i = 0; i < 3; ++i) {
      by_keys.calls[std::size_t(i)].items = {item(everything, parts[2 - i], mask)};
      by_queries.calls[std::size_t(i)].items = {item(parts[i], everything, mask)};
    }
    for (const BackwardCase& cut : {by_keys, by_queries}) expect_same_bits(this->gradients(cut, known), expected);
  }
}

// Sums over thousands of rows; for dv all terms are positive. With D = 160 the sums are in memory, not in registers.
TYPED_TEST(DeviceBackward, SumsOfManyRowsKeepTheirDigits) {
  for (const Index head_dim : {16, 160}) {
    BackwardCase test;
    test.shape = {1, 0, 1, 1, head_dim};
    test.query_rows = head_dim == 16 ? 16384 : 4096;
    test.key_rows = 5;
    test.calls.resize(1);
    test.calls[0].runs = {{0, 0, 1, test.query_rows}, {0, 0, 1, 5}};
    test.calls[0].items = {{{0, 1, test.query_rows}, {1, 1, 5}, 0, 0, 1, 1, Band::all}};
    test.fill_all();
    for (double& number : test.dout) number = std::abs(number);
    const BackwardAnswer known = naive_backward(test);
    for (const bool in_blocks : {false, true}) {
      SCOPED_TRACE(fmt::format("D {}{}", head_dim, in_blocks ? ", blocks go on" : ""));
      const Gradients actual = device_gradients<typename TypeParam::Space, typename TypeParam::Tuning>(
          test, known, TypeParam::team_size(), {}, in_blocks);
      EXPECT_TRUE(close_to(actual.dk, known.gradients.dk, 1e-6)) << "dk";
      EXPECT_TRUE(close_to(actual.dv, known.gradients.dv, 1e-6)) << "dv";
    }
  }
}

// The heads of a group in one item, or in a call each: within a query row, a key's sums add the heads in ascending
// order, so with one query row the bits are the same.
TYPED_TEST(DeviceBackward, HeadsOfAGroupAscend) {
  BackwardCase together;
  together.shape = {1, 0, 5, 1, 4};
  together.query_rows = 1;
  together.key_rows = 3;
  together.calls.resize(1);
  together.calls[0].runs = {{7, 0, 1, 1}, {2, 0, 1, 3}};
  together.calls[0].items = {{{0, 1, 1}, {1, 1, 3}, 0, 0, 2, 3, Band::upto}};  // heads 0, 2, 4
  together.fill_all();
  BackwardCase apart = together;
  apart.calls = {together.calls[0], together.calls[0], together.calls[0]};
  for (Index i = 0; i < 3; ++i) {
    core::WorkItem& item = apart.calls[std::size_t(i)].items[0];
    item.head_first = 2 * i;
    item.head_count = 1;
  }
  const BackwardAnswer known = naive_backward(together);
  const Gradients expected = this->gradients(together, known), actual = this->gradients(apart, known);
  EXPECT_EQ(actual.dk, expected.dk);
  EXPECT_EQ(actual.dv, expected.dv);
  std::swap(apart.calls[0], apart.calls[2]);  // another order gives other bits, or the test would prove nothing
  EXPECT_NE(this->gradients(apart, known).dk, expected.dk);
}

TEST(DeviceBackwardBits, DoNotDependOnTiles) {
  for (const Band mask : all_masks) {
    const BackwardCase test = awkward_backward_case(20, DType::float32, Precision::float32, mask);
    const BackwardAnswer known = naive_backward(test);
    const Gradients other = device_gradients<OtherBackend::Space, OtherTuning>(test, known, OtherBackend::team_size());
    for_each_backend(Backends(), [&](auto backend) {
      using Each = decltype(backend);
      SCOPED_TRACE(fmt::format("{}, mask {}", Each::Space::name(), name_of(mask)));
      expect_same_bits(device_gradients<typename Each::Space, typename Each::Tuning>(test, known, Each::team_size()),
                       other);
    });
  }
}

TYPED_TEST(DeviceBackward, PollsBetweenLaunches) {
  using Tuning = typename TypeParam::Tuning;
  const OneTeamPerLaunch<Tuning> cut;
  BackwardCase test = triangle_case<BackwardCase>();
  test.fill_all();
  int polls = 0;
  const BackwardAnswer known = naive_backward(test);
  const Gradients actual =
      device_gradients<typename TypeParam::Space, Tuning>(test, known, TypeParam::team_size(), [&] { ++polls; });
  const Index tile = Tuning::rows;
  // Batch entries times tiles: of the queries of three heads, and of the keys.
  expect_polls<typename TypeParam::Space>(polls, 2 * (core::ceil_div(3 * 70, tile) + core::ceil_div(70, tile)));
  EXPECT_TRUE(close_to(actual.dk, known.gradients.dk, tolerance(test)));
}

TYPED_TEST(DeviceBackward, DeltaOfRows) {
  // dout.out - dlse with (batch, row, head) far apart in memory: rows of a (2, 3, 2, 4) tensor inside a larger one.
  const Index rows = 3, heads = 2, D = 4, states = 2 * rows * heads;
  for (const DType type : core::all_dtypes) {
    for (const DType sums : {DType::float64, DType::float32}) {
      const auto out = random_values(core::TensorId::q, 2 * (rows + 1) * heads * D, type),
                 dout = random_values(core::TensorId::dout, states * D, type),
                 dlse = random_values(core::TensorId::dlse, states, type);
      DeviceTensor out_tensor = to_device(out, type, rows + 1, heads, D);  // the last row of a batch entry is not used
      const DeviceTensor dout_tensor = to_device(dout, type, rows, heads, D),
                         dlse_tensor = to_device(dlse, type, rows, heads, 1),
                         delta = to_device(std::vector<double>(std::size_t(states), 1234.0), sums, rows, heads, 1);
      for (const bool with_dlse : {true, false}) {
        kernels::device::launch_delta<typename TypeParam::Space>(
            {2, 0, heads, 1, D}, rows, out_tensor.view, dout_tensor.view,
            with_dlse ? dlse_tensor.view : core::TensorView{}, delta.view);
        std::vector<double> expected;
        for (Index i = 0; i < states; ++i) {
          double sum = with_dlse ? -dlse[std::size_t(i)] : 0.0;
          const Index in_out = i / (rows * heads) * (rows + 1) * heads + i % (rows * heads);
          for (Index d = 0; d < D; ++d) sum += dout[std::size_t(i * D + d)] * out[std::size_t(in_out * D + d)];
          expected.push_back(sum);
        }
        EXPECT_TRUE(close_to(from_device(delta.buffer, states, sums), expected, sums == DType::float64 ? 1e-14 : 1e-6));
      }
    }
  }
}

TYPED_TEST(DeviceBackward, FinishedInPlaceAndInEveryType) {
  const Index rows = 7, heads = 5, D = 6, count = 2 * rows * heads * D;
  for (const DType sums : {DType::float64, DType::float32}) {
    const std::vector<double> values = random_values(core::TensorId::k, count, sums);
    for (const DType type : core::all_dtypes) {
      const DeviceTensor from = to_device(values, sums, rows, heads, D),
                         apart = to_device(std::vector<double>(std::size_t(count), 1234.0), type, rows, heads, D);
      const DeviceTensor& to = type == sums ? from : apart;
      kernels::device::launch_gradient<typename TypeParam::Space>({2, rows, heads, heads, D}, rows, from.view, to.view,
                                                                  0.5);
      std::vector<double> expected = values;
      for (double& x : expected) x *= 0.5;
      EXPECT_EQ(from_device(to.buffer, count, type), rounded(expected, type));
    }
  }
}

TYPED_TEST(DeviceBackward, StoredRowsBeyondTwoToThe31) {
  const FarRows test;
  const core::TensorView& q = test.close.view;
  const DeviceTensor normalizers = to_device({1, 1, 1, 1, 1, 1}, DType::float32, test.rows, 1, 2),
                     delta = to_device({1, 1, 1}, DType::float32, test.rows, 1, 1);
  std::vector<double> gradients[2];
  for (const bool spread : {false, true}) {
    const core::TensorView keys = test.keys(spread);
    const auto zeros = [&] { return to_device(std::vector<double>(test.count), DType::float32, test.rows, 1, test.D); };
    const DeviceTensor dq = zeros(), dk = zeros(), dv = zeros();
    kernels::device::launch_attend_backward<typename TypeParam::Space, typename TypeParam::Tuning>(
        test.list, {1, 0, 1, 1, test.D}, Precision::float32, {q, keys, keys, q, normalizers.view, delta.view, 1.0, 1.0},
        {dq.view, dk.view, dv.view}, {}, TypeParam::team_size());
    for (const DeviceTensor& gradient : {dq, dk, dv}) {
      const std::vector<double> numbers = from_device(gradient.buffer, test.count, DType::float32);
      gradients[spread].insert(gradients[spread].end(), numbers.begin(), numbers.end());
    }
  }
  EXPECT_EQ(gradients[0], gradients[1]);
  EXPECT_NE(gradients[0], std::vector<double>(std::size_t(3 * test.count), 0.0));
}

}  // namespace
}  // namespace annulus::test
