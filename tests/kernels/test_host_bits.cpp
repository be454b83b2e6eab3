// Rule K (online_softmax.hpp) on the host: out and lse have the same bits however rows, keys, calls, tiles and tasks
// are cut, if the calls come in the canonical order (keys of row x: x, x - 1, ..., 0, then n - 1, ..., x + 1).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "annulus/core/error.hpp"
#include "kernels/host_case.hpp"
#include "support/tolerance.hpp"

namespace annulus::test {
namespace {

using core::Band;
using core::Precision;
using core::WorkItem;
using core::WorkList;
using kernels::host::TileSizes;

/// One comb of n rows that see each other: q (B, n, H, D), k and v (B, n, Hkv, D).
struct Comb {
  HostCase numbers;
  bool causal = false;
};

class Dice {
 public:
  explicit Dice(unsigned seed) : engine_(seed) {}
  Index between(Index low, Index high) { return std::uniform_int_distribution<Index>(low, high)(engine_); }
  bool heads() { return between(0, 1) == 1; }
  /// Returns 0 = c[0] <= c[1] <= ... <= n: borders of pieces of n rows, of which some may be empty.
  std::vector<Index> cuts(Index n, Index most) {
    std::vector<Index> places{0, n};
    for (Index i = between(0, most - 1); i > 0; --i) places.push_back(between(0, n));
    std::sort(places.begin(), places.end());
    return places;
  }

 private:
  std::mt19937 engine_;
};

/// Numbers that make rounding visible. `kind` 0: equal scores; 1: ties of small numbers; 2: many values exactly 0; 3:
/// keys of the largest weight have value 0, other keys far smaller weights; otherwise nothing special.
Comb make_comb(Dice& dice, Index n, Index head_dim, DType type, Precision precision, int kind) {
  constexpr double amplitudes[] = {1, 1, 8, 40};
  Comb comb{{{dice.between(1, 2), 0, 4, 2, head_dim}, n, n, type, precision}, dice.heads()};
  HostCase& test = comb.numbers;
  test.fill(amplitudes[dice.between(0, 3)]);
  const auto round_all = [](std::vector<double>& x, double step) {
    for (double& y : x) y = std::rint(y / step) * step;
  };
  if (kind == 0) std::fill(test.k.begin(), test.k.end(), 0.0);
  if (kind == 1) {
    round_all(test.q, 1);
    round_all(test.k, 0.5);
  }
  for (std::size_t at = 0; kind == 2 && at < test.v.size(); at += std::size_t(head_dim))
    if (dice.heads()) std::fill_n(test.v.begin() + long(at), head_dim, 0.0);
  for (std::size_t at = 0; kind == 3 && at < test.k.size(); at += std::size_t(head_dim)) {
    // A key has score 0 and value 0, or a score of -60 ... -115, which is a weight of 2^-87 ... 2^-166.
    std::fill_n(test.k.begin() + long(at), head_dim, 0.0);
    const double score = dice.between(0, 5) == 0 ? 0 : -double(dice.between(60, 115));
    test.k[at] = score / 4 * std::sqrt(double(head_dim));
    if (score == 0) std::fill_n(test.v.begin() + long(at), head_dim, 0.0);
  }
  for (std::size_t at = 0; kind == 3 && at < test.q.size(); at += std::size_t(head_dim)) test.q[at] = 4;
  test.k = rounded(test.k, type);
  return comb;
}

/// Adds items for all heads, of rows [begin, end) with keys [from, to); the keys are two runs that meet at `split`.
void add_items(WorkList& list, const HostCase& test, Index begin, Index end, Index from, Index to, Band mask,
               Index split) {
  if (begin == end || from == to) return;
  WorkItem item;
  item.band = mask;
  item.query = {Index(list.runs.size()), 1, end - begin};
  list.runs.push_back({begin, begin, 1, end - begin});
  const Index middle = std::clamp(split, from, to);
  item.key = {Index(list.runs.size()), 2, to - from};
  list.runs.push_back({from, from, 1, middle - from});
  list.runs.push_back({middle, middle, 1, to - middle});
  const Index group = test.shape.group();
  for (Index kv_head = 0; kv_head < test.shape.kv_heads; ++kv_head) {
    item.kv_head = kv_head;
    item.head_first = kv_head * group;
    item.head_count = group;
    list.items.push_back(item);
  }
}

/// Calls of one comb in the canonical order, cut at random; keys are cut at other places than rows.
std::vector<WorkList> random_calls(Dice& dice, const Comb& comb) {
  const HostCase& test = comb.numbers;
  const Index n = test.key_rows;
  const std::vector<Index> rows = dice.cuts(n, 5);
  std::vector<WorkList> calls;
  for (std::size_t r = 0; r + 1 < rows.size(); ++r) {
    const std::vector<Index> keys = dice.cuts(n, 7);
    for (const Band mask : {Band::upto, Band::after}) {
      if (mask == Band::after && comb.causal) break;
      for (std::size_t k = keys.size() - 1; k-- > 0;) {
        const bool whole = mask == Band::upto ? keys[k + 1] <= rows[r] : keys[k] >= rows[r + 1];
        WorkList list;
        add_items(list, test, rows[r], rows[r + 1], keys[k], keys[k + 1], whole && dice.heads() ? Band::all : mask,
                  dice.between(0, n));
        // Keys wholly before the rows may have Band::all in place of `upto`, keys after them in place of `after`.
        calls.push_back(list);
      }
    }
  }
  return calls;
}

struct Bits {
  std::vector<double> out, lse;  // exact images of what was stored
  bool operator==(const Bits& other) const {
    const auto same = [](const std::vector<double>& a, const std::vector<double>& b) {
      return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
    };
    return same(out, other.out) && same(lse, other.lse);
  }
};

/// Runs the calls; with `dice`, every call has other, random tile sizes.
Bits run(const HostCase& test, const std::vector<WorkList>& calls, InstructionSet set, Dice* dice, int exponent_bias) {
  const core::Shape& shape = test.shape;
  const DeviceTensor q = to_device(test.q, test.type, test.query_rows, shape.heads, shape.head_dim);
  const DeviceTensor k = to_device(test.k, test.type, test.key_rows, shape.kv_heads, shape.head_dim);
  const DeviceTensor v = to_device(test.v, test.type, test.key_rows, shape.kv_heads, shape.head_dim);
  kernels::State state(shape, test.query_rows, test.precision, exponent_bias);
  poison(state.acc);
  for (const WorkList& list : calls) {
    const TileSizes sizes = dice ? TileSizes{dice->between(1, 300), dice->between(1, 200)} : TileSizes{};
    kernels::host::host_attend(list, {q.view, k.view, v.view, test.scale()}, state, {}, set, sizes);
  }
  const Index numbers = test.query_numbers(), states = numbers / shape.head_dim;
  const DType lse_type = core::lse_type(test.type);
  const DeviceTensor out =
      to_device(std::vector<double>(std::size_t(numbers)), test.type, test.query_rows, shape.heads, shape.head_dim);
  const DeviceTensor lse =
      to_device(std::vector<double>(std::size_t(states)), lse_type, test.query_rows, shape.heads, 1);
  kernels::host::host_finish(state, {out.view, lse.view}, 0.7, set);
  return {from_device(out.buffer, numbers, test.type), from_device(lse.buffer, states, lse_type)};
}

/// Everything in one call for each half of the canonical order.
std::vector<WorkList> whole_calls(const Comb& comb) {
  const Index n = comb.numbers.key_rows;
  std::vector<WorkList> calls(comb.causal ? 1 : 2);
  add_items(calls[0], comb.numbers, 0, n, 0, n, Band::upto, n);
  if (!comb.causal) add_items(calls[1], comb.numbers, 0, n, 0, n, Band::after, n);
  return calls;
}

class HostBits : public testing::TestWithParam<std::tuple<DType, Precision>> {};

TEST_P(HostBits, SameForAnyCutOfRowsKeysTilesAndTasks) {
  const auto [type, precision] = GetParam();
  for (const InstructionSet set : kernels::host::usable_instruction_sets()) {
    for (const Index head_dim : {1, 31, 64, 80, 128}) {
      for (int kind = 0; kind < 5; ++kind) {
        const unsigned seed = unsigned(head_dim * 10 + kind);
        Dice dice(seed);
        const Index n = kind == 4 ? dice.between(150, 420) : dice.between(1, 150);
        const Comb comb = make_comb(dice, n, head_dim, type, precision, kind);
        const Bits expected = run(comb.numbers, whole_calls(comb), set, nullptr, kernels::reproducible_exponent_bias);
        for (int trial = 0; trial < 6; ++trial) {
          const auto calls = trial == 0 ? whole_calls(comb) : random_calls(dice, comb);
          ASSERT_EQ(run(comb.numbers, calls, set, &dice, kernels::reproducible_exponent_bias), expected)
              << name_of(set) << ", D " << head_dim << ", kind " << kind << ", n " << n << ", causal " << comb.causal
              << ", trial " << trial << ", seed " << seed;
        }
      }
    }
  }
}

/// Runs several sets of calls over one comb, one after another into the same state, as a run does pair by pair.
Bits run_passes(const HostCase& test, const std::vector<std::vector<WorkList>>& passes, InstructionSet set) {
  const core::Shape& shape = test.shape;
  const DeviceTensor q = to_device(test.q, test.type, test.query_rows, shape.heads, shape.head_dim);
  const DeviceTensor k = to_device(test.k, test.type, test.key_rows, shape.kv_heads, shape.head_dim);
  const DeviceTensor v = to_device(test.v, test.type, test.key_rows, shape.kv_heads, shape.head_dim);
  kernels::State state(shape, test.query_rows, test.precision, kernels::reproducible_exponent_bias);
  poison(state.acc);
  for (const auto& calls : passes) {
    for (const WorkList& list : calls)
      kernels::host::host_attend(list, {q.view, k.view, v.view, test.scale()}, state, {}, set);
  }
  const Index numbers = test.query_numbers(), states = numbers / shape.head_dim;
  const DeviceTensor out =
      to_device(std::vector<double>(std::size_t(numbers)), test.type, test.query_rows, shape.heads, shape.head_dim);
  const DType lse_type = core::lse_type(test.type);
  const DeviceTensor lse =
      to_device(std::vector<double>(std::size_t(states)), lse_type, test.query_rows, shape.heads, 1);
  kernels::host::host_finish(state, {out.view, lse.view}, 1, set);
  return {from_device(out.buffer, numbers, test.type), from_device(lse.buffer, states, lse_type)};
}

TEST(HostPasses, MakeOneSoftmaxWithTheSameBitsForAnyCut) {
  for (const Precision precision : {Precision::float32, Precision::float64}) {
    const DType type = precision == Precision::float32 ? DType::float32 : DType::float64;
    for (unsigned seed = 0; seed < 12; ++seed) {
      Dice dice(seed);
      Comb comb = make_comb(dice, 60, 24, type, precision, 4);
      comb.causal = true;  // first rows see few keys; a second set shows keys 0 ... 19 to rows 20 ... 59 only
      HostCase& test = comb.numbers;
      std::vector<WorkList> second(1);
      add_items(second[0], test, 20, 60, 0, 20, Band::all, 7);
      test.calls = whole_calls(comb);
      test.calls.push_back(second[0]);
      const InstructionSet set = kernels::host::best_instruction_set();
      const Bits whole = run_passes(test, {whole_calls(comb), second}, set);
      const kernels::ReferenceResult expected = naive_answer(test);
      EXPECT_TRUE(close_to(whole.out, expected.out, core::forward_tolerance(type) * 10)) << seed;
      EXPECT_TRUE(close_to(whole.lse, expected.lse, core::forward_tolerance(type) * 10)) << seed;
      EXPECT_EQ(run_passes(test, {random_calls(dice, comb), second}, set), whole) << seed;
      EXPECT_EQ(run_passes(test, {{}, whole_calls(comb), {}, second}, set), whole) << "empty passes change nothing";
    }
  }
}

TEST(HostPasses, OverRowsWithoutKeysAndFarApartAreNoNan) {
  HostCase test = plain_case(2, 2, 1, false);
  test.q = {1, -1};
  test.k = {3000, -3000};
  test.v = {5, 7};
  std::vector<WorkList> first(1), second(1);
  add_items(first[0], test, 0, 1, 0, 1, Band::all, 1);   // row 0 sees key 0, score 3000
  add_items(second[0], test, 0, 1, 1, 2, Band::all, 2);  // and key 1, score -3000; row 1 sees none
  for (const InstructionSet set : kernels::host::usable_instruction_sets()) {
    for (const auto& passes : {std::vector{first, second}, std::vector{second, first}}) {
      const Bits whole = run_passes(test, passes, set);
      EXPECT_EQ(whole.out, (std::vector<double>{5, 0}));
      EXPECT_NEAR(whole.lse[0], 3000, 1e-3);
      EXPECT_EQ(whole.lse[1], -std::numeric_limits<double>::infinity());
    }
  }
}

// In base 2, floats as large as these scores are at least 64 apart, as much as the exponent bias: rounding could double
// the bias.
TEST(HostPasses, OfHugeScoresAreFinite) {
  HostCase test = plain_case(1, 2, 1, false);
  test.q = {1};
  test.v = {5, 7};
  std::vector<WorkList> calls(1);
  add_items(calls[0], test, 0, 1, 0, 2, Band::all, 2);
  for (const double score : {0.7e9, 0.8e9, 1e9, 1.2e9, 1.4e9, 3e9}) {
    test.k = {score, -score};
    for (const InstructionSet set : kernels::host::usable_instruction_sets()) {
      const Bits bits = run_passes(test, {calls}, set);
      EXPECT_EQ(bits.out[0], 5) << name_of(set) << ", " << score;
      EXPECT_NEAR(bits.lse[0] / score, 1, 1e-6) << name_of(set) << ", " << score;
    }
  }
}

TEST(HostFinish, WorksInTheMemoryOfTheAccumulator) {
  for (const auto& [type, precision] :
       {std::pair{DType::float32, Precision::float32}, std::pair{DType::float64, Precision::float64}}) {
    for (const InstructionSet set : kernels::host::usable_instruction_sets()) {
      for (const Index head_dim : {1, 31, 64}) {
        Dice dice(unsigned(head_dim) + 40);
        const HostCase test = make_comb(dice, 77, head_dim, type, precision, 4).numbers;
        const core::Shape& s = test.shape;
        const DeviceTensor q = to_device(test.q, type, test.query_rows, s.heads, head_dim);
        const DeviceTensor k = to_device(test.k, type, test.key_rows, s.kv_heads, head_dim);
        const DeviceTensor v = to_device(test.v, type, test.key_rows, s.kv_heads, head_dim);
        const DeviceTensor apart = to_device(test.q, type, test.query_rows, s.heads, head_dim);
        const DeviceTensor inside = to_device(test.q, type, test.query_rows, s.heads, head_dim);
        const DeviceTensor lse = to_device(test.q, core::lse_type(type), test.query_rows, s.heads, 1);
        kernels::State state(s, test.query_rows, precision, 0, false, inside.buffer);
        poison(state.acc);
        WorkList half;  // the other rows see no key
        add_items(half, test, 0, test.query_rows / 2, 0, test.key_rows, Band::all, 7);
        kernels::host::host_attend(half, {q.view, k.view, v.view, test.scale()}, state, {}, set);
        kernels::host::host_finish(state, {apart.view, lse.view}, 0.7, set);
        kernels::host::host_finish(state, {inside.view, lse.view}, 0.7, set);
        const auto expected = from_device(apart.buffer, test.query_numbers(), type);
        EXPECT_EQ(from_device(inside.buffer, test.query_numbers(), type), expected) << name_of(set);
        EXPECT_EQ(expected.back(), 0) << "no key";
      }
    }
  }
  EXPECT_THROW(kernels::State({1, 0, 2, 2, 8}, 3, Precision::float32, 0, false, core::Buffer("out", 4 * 3 * 2 * 8 - 4)),
               core::Error);
}

INSTANTIATE_TEST_SUITE_P(Types, HostBits,
                         testing::Values(std::tuple{DType::float32, Precision::float32},
                                         std::tuple{DType::float64, Precision::float64},
                                         std::tuple{DType::float16, Precision::float32},
                                         std::tuple{DType::bfloat16, Precision::float32},
                                         std::tuple{DType::bfloat16, Precision::bfloat16}),
                         [](const auto& info) {
                           const bool as_stored = std::get<1>(info.param) == Precision::bfloat16;
                           return std::string(name_of(std::get<0>(info.param))) + (as_stored ? "_products" : "");
                         });

}  // namespace
}  // namespace annulus::test
