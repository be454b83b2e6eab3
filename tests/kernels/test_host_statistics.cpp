// Statistics on the host against the definition, on every instruction set this machine has.
#include "kernels/host_case.hpp"
#include "kernels/statistics_case.hpp"

namespace annulus::test {
namespace {

using core::Band;
using core::Precision;

constexpr Band all_masks[] = {Band::all, Band::upto, Band::after};

StatisticsAnswer host_statistics(const WorkCase& test, const std::vector<double>& lse, Index keys, InstructionSet set) {
  return made_statistics(test, lse, keys, [&](const auto& list, const auto& operands, const auto& views) {
    kernels::host::host_attend_statistics(list, test.shape, test.query_rows, test.precision, operands, views, {}, set);
  });
}

void expect_right(const WorkCase& test, Index keys, const std::string& what) {
  const std::vector<double> lse = naive_answer(test).lse;
  const StatisticsAnswer expected = naive_statistics(test, lse, keys);
  for (const InstructionSet set : kernels::host::usable_instruction_sets()) {
    SCOPED_TRACE(fmt::format("{}, {} keys listed, {}", what, keys, name_of(set)));
    expect_close(host_statistics(test, lse, keys, set), expected,
                 core::forward_tolerance(test.precision == Precision::float64 ? DType::float64 : DType::float32));
  }
}

TEST(HostStatistics, HeadSizesMasksAndBothPrecisions) {
  Index keys = 0;
  for (const Index D : {1, 5, 17, 32, 80, 256}) {
    for (const Band mask : all_masks) {
      for (const Precision precision : number_precisions) {
        const DType type = core::type_of(precision);
        expect_right(statistics_case(D, mask, type, precision), keys, fmt::format("D {}, {}", D, name_of(type)));
        keys = (keys + 3) % 11;
      }
    }
  }
}

TEST(HostStatistics, EveryStorageType) {
  for (const auto& [type, precision] : types_and_precisions()) {
    expect_right(statistics_case(24, Band::upto, type, precision), 8, std::string(name_of(type)));
  }
}

TEST(HostStatistics, ManyTilesAndMoreListedThanThereAre) {
  for (const Band mask : all_masks) {
    WorkCase test = plain_case(1500, 1400, 16, false);
    test.calls[0].items[0].band = mask;
    test.fill(3);  // weights from 1 down to next to nothing
    for (const Index keys : {1, 64}) expect_right(test, keys, "many tiles");
  }
  WorkCase long_lists = plain_case(60, 700, 16, true);
  long_lists.calls[0].items[0].band = Band::after;
  long_lists.fill(3);
  expect_right(long_lists, 500, "long lists");
  WorkCase few = plain_case(5, 3, 8, true);
  few.fill();
  expect_right(few, 9, "few keys");
}

/// -sum P ln P; 0 without keys.
std::vector<double> naive_entropy(const WorkCase& test, const std::vector<double>& lse) {
  std::vector<double> entropy(lse.size());
  for_each_meeting(test, [&](std::size_t row, std::size_t key) {
    const double log_p = test.scale() * dot(test.q, row, test.k, key, test.shape.head_dim) - lse[row];
    entropy[row] -= std::exp(log_p) * log_p;
  });
  return entropy;
}

TEST(HostStatistics, Entropy) {
  for (const Index D : {5, 64}) {
    for (const Band mask : all_masks) {
      for (const Precision precision : number_precisions) {
        WorkCase test = plain_case(200, 310, D, false);
        test.calls[0].items[0].band = mask;
        test.type = core::type_of(precision);
        test.precision = precision;
        test.fill(2);
        const core::Shape& s = test.shape;
        const std::vector<double> lse = naive_answer(test).lse, expected = naive_entropy(test, lse);
        const DeviceTensor q = to_device(test.q, test.type, test.query_rows, 1, D),
                           k = to_device(test.k, test.type, test.key_rows, 1, D),
                           v = to_device(test.v, test.type, test.key_rows, 1, D),
                           out = to_device(test.q, test.type, test.query_rows, 1, D),
                           found_lse = to_device(lse, test.type, test.query_rows, 1, 1),
                           entropy = to_device(lse, test.type, test.query_rows, 1, 1);
        for (const InstructionSet set : kernels::host::usable_instruction_sets()) {
          kernels::State state(s, test.query_rows, precision, 0, true);
          kernels::host::host_attend(test.calls[0], {q.view, k.view, v.view, test.scale()}, state, {}, set);
          kernels::host::host_finish(state, {out.view, found_lse.view, {}, entropy.view}, 1, set);
          EXPECT_TRUE(close_to(from_device(entropy.buffer, test.states(), test.type), expected,
                               core::forward_tolerance(test.type)))
              << "D " << D << ", " << name_of(set) << ", mask " << name_of(mask);
        }
      }
    }
  }
}

/// One key has scores of -1e40, which is -inf in float32. It has weight 0 and adds 0 to the entropy, not 0 x inf = NaN.
TEST(HostStatistics, AScoreThatOverflowsAddsNothingToTheEntropy) {
  for (const Index key : {0, 150, 309}) {
    WorkCase test = plain_case(200, 310, 5, false);
    test.fill(2);
    for (Index row = 0; row < test.query_rows; ++row) test.q[std::size_t(row * 5)] = 1e20;
    for (Index row = 0; row < test.key_rows; ++row) test.k[std::size_t(row * 5)] = row == key ? -1e20 : 0;
    const std::vector<double> lse = naive_answer(test).lse, expected = naive_entropy(test, lse);
    const DeviceTensor q = to_device(test.q, test.type, test.query_rows, 1, 5),
                       k = to_device(test.k, test.type, test.key_rows, 1, 5),
                       v = to_device(test.v, test.type, test.key_rows, 1, 5),
                       out = to_device(test.q, test.type, test.query_rows, 1, 5),
                       found_lse = to_device(lse, test.type, test.query_rows, 1, 1),
                       entropy = to_device(lse, test.type, test.query_rows, 1, 1);
    for (const InstructionSet set : kernels::host::usable_instruction_sets()) {
      kernels::State state(test.shape, test.query_rows, test.precision, 0, true);
      kernels::host::host_attend(test.calls[0], {q.view, k.view, v.view, test.scale()}, state, {}, set);
      kernels::host::host_finish(state, {out.view, found_lse.view, {}, entropy.view}, 1, set);
      EXPECT_TRUE(
          close_to(from_device(entropy.buffer, test.states(), test.type), expected, core::forward_tolerance(test.type)))
          << "key " << key << ", " << name_of(set);
    }
  }
}

/// Equal keys have equal weights: the lowest rows are listed, wherever they are in a tile.
TEST(HostStatistics, EqualWeightsAreListedByRow) {
  WorkCase test = plain_case(130, 300, 8, false);
  test.fill();
  std::fill(test.k.begin(), test.k.end(), 0.0);
  const std::vector<double> lse = naive_answer(test).lse;
  for (const InstructionSet set : kernels::host::usable_instruction_sets()) {
    const StatisticsAnswer found = host_statistics(test, lse, 20, set);
    for (std::size_t i = 0; i < found.rows.size(); ++i) ASSERT_EQ(found.rows[i], Index(i) % 20) << name_of(set);
  }
}

}  // namespace
}  // namespace annulus::test
