// The device algorithm against the definition: on Serial, and on OpenMP with all threads in one team (CTest runs this
// program with one thread and with four), with the host's tuning table and with the GPU's. Builds for GPUs run it on
// the GPU only, because no other space can read the tensors' memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>

#include "kernels/band_case.hpp"
#include "kernels/device_case.hpp"
#include "kernels/rule_case.hpp"
#include "kernels/unseen_case.hpp"
#include "support/tolerance.hpp"

namespace annulus::test {
namespace {

using core::Precision;

double tolerance(const WorkCase& test) {
  const double rounding = core::forward_tolerance(test.precision == Precision::float32 ? DType::float32 : test.type);
  return std::max(rounding, core::forward_tolerance(test.type));
}

std::string describe(const WorkCase& test, bool causal) {
  return std::string(core::name_of(test.type)) + " accumulated in " + std::string(core::name_of(test.precision)) +
         ", D = " + std::to_string(test.shape.head_dim) + (causal ? ", causal" : "");
}

template <class Backend>
class DeviceAttention : public testing::Test {
 public:
  static void expect_right(const WorkCase& test, double allowed, const std::string& what) {
    const kernels::ReferenceResult expected = naive_answer(test);
    const kernels::ReferenceResult actual =
        device_answer<typename Backend::Space, typename Backend::Tuning>(test, Backend::team_size());
    EXPECT_TRUE(close_to(actual.out, expected.out, allowed)) << "out, " << what;
    EXPECT_TRUE(close_to(actual.lse, expected.lse, allowed)) << "lse, " << what;
  }
};
TYPED_TEST_SUITE(DeviceAttention, Backends);

TYPED_TEST(DeviceAttention, TeamsHaveAllThreads) { expect_teams_of_all_threads<TypeParam>(); }

TYPED_TEST(DeviceAttention, EveryTypeAndHeadSize) {
  for (const DType type : core::all_dtypes) {
    for (const Precision precision : {Precision::float64, Precision::float32}) {
      for (const Index head_dim : {1, 5, 32, 64, 80, 127, 256, 576}) {
        for (const bool causal : {false, true}) {
          const WorkCase test = awkward_case(head_dim, type, precision, causal);
          this->expect_right(test, tolerance(test), describe(test, causal));
        }
      }
    }
  }
}

TYPED_TEST(DeviceAttention, RowsSeeTheKeysAfterThem) {
  for (const DType type : {DType::float64, DType::float32}) {
    WorkCase test = awkward_case(32, type, Precision::float64, true);
    for (core::WorkList& list : test.calls) {
      for (core::WorkItem& item : list.items) item.band = core::Band::after;
    }
    this->expect_right(test, tolerance(test), describe(test, true) + ", keys after the rows");
  }
}

TYPED_TEST(DeviceAttention, BandsWithTwoEnds) {
  for (const DType type : {DType::float64, DType::float32}) {
    for (const core::Band& band : window_bands) {
      const WorkCase test = with_band(awkward_case(32, type, core::default_precision(type, false), false), band);
      this->expect_right(test, tolerance(test), name_of(band));
    }
  }
}

TYPED_TEST(DeviceAttention, RulesOfScores) {
  for (const DType type : core::all_dtypes) {
    for (const auto& [name, rule] : all_rules()) {
      const Precision precision = type == DType::float64 ? Precision::float64 : Precision::float32;
      for (const core::Band& band : {core::Band::upto, core::Band{40, 25}}) {
        const WorkCase test = with_rule<WorkCase>(awkward_backward_case(24, type, precision, band), rule);
        this->expect_right(test, tolerance(test), describe(test, false) + ", " + name + ", " + name_of(band));
      }
    }
  }
}

// Scores far beyond the cap, and hidden keys: the cap must not give hidden keys a weight.
TYPED_TEST(DeviceAttention, ACapOfLargeScores) {
  WorkCase test = awkward_case(24, DType::float32, Precision::float32, true);
  test.fill(1e4);
  test = with_rule(test, {30});
  this->expect_right(test, 1e-5, "scores of up to 1e8");
}

TYPED_TEST(DeviceAttention, WhatNoPairReadsStaysOut) {
  for (const DType type : core::all_dtypes) {
    for (const Index head_dim : {5, 64, 200}) {
      const WorkCase test = awkward_case(head_dim, type, Precision::float32, true);
      expect_unseen_stay_out(test, describe(test, true), [](const WorkCase& one) {
        return device_answer<typename TypeParam::Space, typename TypeParam::Tuning>(one, TypeParam::team_size());
      });
    }
  }
}

TYPED_TEST(DeviceAttention, SameBitsForAnyCutOfTheKeys) {
  // Keys in the canonical order (x, x - 1, ..., 0, then n - 1, ..., x + 1), in one piece and cut into many.
  constexpr Index n = 171;
  for (const double amplitude : {1.0, 30.0}) {
    for (const Precision precision : {Precision::float32, Precision::float64}) {
      WorkCase test;
      test.shape = {1, 0, 4, 2, 20};
      test.query_rows = test.key_rows = n;
      test.precision = precision;
      test.fill(amplitude);
      const auto answer_for = [&](const std::vector<Index>& cuts) {
        test.calls.clear();
        for (const core::Band mask : {core::Band::upto, core::Band::after}) {
          for (std::size_t i = cuts.size() - 1; i-- > 0;) {
            core::WorkList list;
            list.runs = {{0, 0, 1, n}, {cuts[i], cuts[i], 1, cuts[i + 1] - cuts[i]}};
            const core::RowMap keys{1, 1, cuts[i + 1] - cuts[i]};
            list.items = {{{0, 1, n}, keys, 0, 0, 1, 2, mask}, {{0, 1, n}, keys, 1, 2, 1, 2, mask}};
            test.calls.push_back(list);
          }
        }
        return device_answer<typename TypeParam::Space, typename TypeParam::Tuning>(test, TypeParam::team_size());
      };
      const kernels::ReferenceResult whole = answer_for({0, n});
      for (const auto& cuts : {std::vector<Index>{0, 1, 64, 65, 100, n}, std::vector<Index>{0, 7, 31, 140, 170, n}}) {
        const kernels::ReferenceResult cut = answer_for(cuts);
        EXPECT_EQ(cut.out, whole.out) << amplitude;
        EXPECT_EQ(cut.lse, whole.lse) << amplitude;
      }
    }
  }
}

TEST(DeviceAttentionBits, SameForAnyTiles) {
  // With OtherTuning, float accumulators lie in registers for D = 20 and 32, in memory for D = 40 and 128.
  for (const Precision precision : {Precision::float32, Precision::float64}) {
    for (const Index head_dim : {20, 32, 40, 128}) {
      for (const bool causal : {false, true}) {
        if (!causal && head_dim > 20) continue;  // masks do not depend on D
        const WorkCase test = awkward_case(head_dim, DType::float32, precision, causal);
        const auto other = device_answer<OtherBackend::Space, OtherTuning>(test, OtherBackend::team_size());
        for_each_backend(Backends(), [&](auto backend) {
          using Each = decltype(backend);
          const auto one = device_answer<typename Each::Space, typename Each::Tuning>(test, Each::team_size());
          EXPECT_EQ(one.out, other.out) << Each::Space::name() << ": " << describe(test, causal);
          EXPECT_EQ(one.lse, other.lse) << Each::Space::name() << ": " << describe(test, causal);
        });
      }
    }
  }
}

// Rows that do not lie at multiples of 16 bytes are read number by number, other rows 16 bytes at a time.
TYPED_TEST(DeviceAttention, SameBitsWhereverRowsLie) {
  for (const DType type : core::all_dtypes) {
    const WorkCase test = awkward_case(24, type, Precision::float64, true);
    const core::Shape& shape = test.shape;
    const auto answer = [&](Index shift, Index gap) {
      const auto placed = [&](const std::vector<double>& values, Index rows, Index heads) {
        const Index width = shape.head_dim + gap, count = Index(values.size()) / shape.head_dim;
        std::vector<double> wide(std::size_t(shift + count * width), 1234.0);
        for (Index i = 0; i < count; ++i) {
          std::copy_n(values.begin() + i * shape.head_dim, shape.head_dim, wide.begin() + shift + i * width);
        }
        DeviceTensor tensor = to_device(wide, type, 1, 1, Index(wide.size()));
        tensor.view =
            core::contiguous_view(tensor.buffer.at(shift * Index(core::bytes_of(type))), type, rows, heads, width);
        return tensor;
      };
      const DeviceTensor q = placed(test.q, test.query_rows, shape.heads),
                         k = placed(test.k, test.key_rows, shape.kv_heads),
                         v = placed(test.v, test.key_rows, shape.kv_heads);
      kernels::State state(shape, test.query_rows, test.precision);
      core::fill_zero(state.acc.data(), state.acc.bytes());
      for (const core::WorkList& list : test.calls) {
        kernels::device::launch_attend<typename TypeParam::Space, typename TypeParam::Tuning>(
            list, {q.view, k.view, v.view, test.scale()}, state, {}, TypeParam::team_size());
      }
      return from_device(state.acc, test.states() * shape.head_dim, test.sums());
    };
    const std::vector<double> whole = answer(0, 0);
    EXPECT_EQ(answer(1, 0), whole) << core::name_of(type);
    EXPECT_EQ(answer(0, 1), whole) << core::name_of(type);
    EXPECT_EQ(answer(8, 8), whole) << core::name_of(type);
  }
}

TYPED_TEST(DeviceAttention, RowsWithoutKeysAreZeroWithMinusInfinity) {
  const WorkCase test = awkward_case(5, DType::float32, Precision::float32, true);
  const auto answer =
      device_answer<typename TypeParam::Space, typename TypeParam::Tuning>(test, TypeParam::team_size());
  const Index heads = test.shape.heads, D = test.shape.head_dim;
  // Row 0 is in no item. Row 4 has comb index 3; its heads 2 and 3 get few_keys only, which begin at comb index 40.
  for (const Index number : {Index(0) * heads + 1, Index(4) * heads + 2}) {
    EXPECT_EQ(answer.lse[std::size_t(number)], -std::numeric_limits<double>::infinity()) << number;
    for (Index d = 0; d < D; ++d) EXPECT_EQ(answer.out[std::size_t(number * D + d)], 0.0) << number << " " << d;
  }
}

TYPED_TEST(DeviceAttention, HeadsAStrideApart) {
  WorkCase test;
  test.shape = {1, 0, 6, 1, 7};
  test.query_rows = test.key_rows = 33;
  test.calls.resize(1);
  test.calls[0].runs = {{0, 0, 1, 33}, {0, 0, 1, 20}};
  test.calls[0].items = {
      {{0, 1, 33}, {0, 1, 33}, 0, 0, 2, 3, core::Band::upto},   // heads 0 2 4
      {{0, 1, 33}, {1, 1, 20}, 0, 1, 4, 2, core::Band::upto}};  // heads 1 5, fewer keys; head 3: none
  test.fill();
  this->expect_right(test, tolerance(test), "heads a stride apart");
}

TYPED_TEST(DeviceAttention, LargeScores) {
  WorkCase test = awkward_case(32, DType::float64, Precision::float64, true);
  test.fill(500);
  this->expect_right(test, 1e-12, "amplitude 500 in float64");

  // In float32 a score of 1000 is exact to 1e-4 only: the answer cannot be more accurate.
  test.type = DType::float32;
  test.precision = Precision::float32;
  test.fill(500);
  this->expect_right(test, 1e-3, "amplitude 500 in float32");

  // Only the key with the largest score counts in each row. float32 can hold numbers of this size.
  test.fill(1e30);
  this->expect_right(test, 1e-5, "amplitude 1e30 in float32");
}

TYPED_TEST(DeviceAttention, OutputScale) {
  WorkCase test = awkward_case(5, DType::float32, Precision::float32, false);
  test.output_scale = 1.0 / 3;
  this->expect_right(test, tolerance(test), "output divided by 3");
}

TYPED_TEST(DeviceAttention, GoesOnFromAnyShift) {
  // Another kernel may leave any even shift m in the state: here m + 6, with l and acc divided by 64.
  using Space = typename TypeParam::Space;
  using Tuning = typename TypeParam::Tuning;
  const WorkCase test = awkward_case(5, DType::float64, Precision::float64, true);
  const core::Shape shape = test.shape;
  const DeviceTensor q = to_device(test.q, test.type, test.query_rows, shape.heads, 5);
  const DeviceTensor k = to_device(test.k, test.type, test.key_rows, shape.kv_heads, 5);
  const DeviceTensor v = to_device(test.v, test.type, test.key_rows, shape.kv_heads, 5);
  kernels::State state(shape, test.query_rows, test.precision);
  const kernels::Operands operands{q.view, k.view, v.view, test.scale()};
  const int team_size = TypeParam::team_size();
  kernels::device::launch_attend<Space, Tuning>(test.calls[0], operands, state, {}, team_size);

  const auto change = [&](const core::Buffer& buffer, auto&& rule) {
    std::vector<double> values(std::size_t(buffer.bytes()) / sizeof(double));
    core::copy_to_host(values.data(), buffer.data(), buffer.bytes());
    for (double& x : values) x = rule(x);
    core::copy_to_device(buffer.data(), values.data(), buffer.bytes());
  };
  change(state.m, [](double m) { return m + 6; });
  change(state.l, [](double l) { return l / 64; });
  change(state.acc, [](double acc) { return acc / 64; });

  kernels::device::launch_attend<Space, Tuning>(test.calls[1], operands, state, {}, team_size);
  const Index states = test.states();
  const core::TensorView out = core::contiguous_view(state.acc.data(), test.type, test.query_rows, 4, 5);  // in place
  const DeviceTensor lse = to_device(std::vector<double>(std::size_t(states)), test.type, test.query_rows, 4, 1);
  kernels::device::launch_finish<Space>(state, {out, lse.view}, 1);
  const kernels::ReferenceResult expected = naive_answer(test);
  EXPECT_TRUE(close_to(from_device(state.acc, states * 5, test.type), expected.out, 1e-12));
  EXPECT_TRUE(close_to(from_device(lse.buffer, states, test.type), expected.lse, 1e-12));
}

TYPED_TEST(DeviceAttention, PollsBetweenLaunches) {
  using Tuning = typename TypeParam::Tuning;
  const OneTeamPerLaunch<Tuning> cut;
  WorkCase test = triangle_case<WorkCase>();
  test.fill();
  int polls = 0;
  const auto answer = device_answer<typename TypeParam::Space, Tuning>(test, TypeParam::team_size(), [&] { ++polls; });
  const Index tiles = core::ceil_div(70, Tuning::rows);
  expect_polls<typename TypeParam::Space>(polls, 2 * 3 * tiles);  // batch, heads, tiles
  EXPECT_TRUE(close_to(answer.out, naive_answer(test).out, 1e-5));
}

TYPED_TEST(DeviceAttention, StoredRowsBeyondTwoToThe31) {
  const FarRows test;
  std::vector<double> out_of[2];
  for (const bool spread : {false, true}) {
    kernels::State state(core::Shape{1, 0, 1, 1, test.D}, test.rows, Precision::float32);
    const core::TensorView keys = test.keys(spread);
    kernels::device::launch_attend<typename TypeParam::Space, typename TypeParam::Tuning>(
        test.list, {test.close.view, keys, keys, 1.0}, state, {}, TypeParam::team_size());
    const DeviceTensor out = to_device(std::vector<double>(test.count), test.type, test.rows, 1, test.D);
    const DeviceTensor lse = to_device(std::vector<double>(test.rows), DType::float32, test.rows, 1, 1);
    kernels::device::launch_finish<typename TypeParam::Space>(state, {out.view, lse.view}, 1);
    out_of[spread] = from_device(out.buffer, test.count, test.type);
  }
  EXPECT_EQ(out_of[0], out_of[1]);
  EXPECT_NE(out_of[0], std::vector<double>(std::size_t(test.count), 0.0));
}

}  // namespace
}  // namespace annulus::test
