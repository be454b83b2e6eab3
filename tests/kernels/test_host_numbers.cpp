// Numbers at the edges: large and equal scores, huge values, overflow, NaN, 16-bit storage bit by bit, exp2.
#include <gtest/gtest.h>

#include <tuple>

#include "kernels/host_case.hpp"
#include "support/tolerance.hpp"

namespace annulus::test {
namespace {

using core::Precision;

void expect_right(const HostCase& test, double tolerance, const std::string& what) {
  const kernels::ReferenceResult expected = naive_answer(test);
  for (const InstructionSet set : kernels::host::usable_instruction_sets()) {
    SCOPED_TRACE(what + ", " + std::string(name_of(set)));
    const kernels::ReferenceResult actual = host_answer(test, set);
    EXPECT_TRUE(close_to(actual.out, expected.out, tolerance)) << "out";
    EXPECT_TRUE(close_to(actual.lse, expected.lse, tolerance)) << "lse";
  }
}

/// All scores of query i with key j are small whole numbers times `size`, which are exact in float32: q = (size, 0,
/// ...), k = (+-(j mod 7), 0, ...).
HostCase exact_scores(Index rows, Index keys, double size, double sign) {
  HostCase test = plain_case(rows, keys, 4, false);
  test.q.assign(std::size_t(rows * 4), 0.0);
  test.k.assign(std::size_t(keys * 4), 0.0);
  for (Index i = 0; i < rows; ++i) test.q[std::size_t(i * 4)] = size;
  for (Index j = 0; j < keys; ++j) test.k[std::size_t(j * 4)] = sign * double(j % 7);
  test.v = random_values(core::TensorId::v, test.key_numbers(), test.type);
  return test;
}

TEST(HostNumbers, ScoresOfEverySize) {
  // From scores so small that all keys weigh the same to scores of which only the largest counts. Beyond 2^22 rounding
  // by adding 2^23 would fail, beyond 2^31 rounding by conversion to 32-bit integers.
  for (const double size : {0x1p-30, 1.0, 100.0, 0x1p18, 0x1p21, 0x1p23, 0x1p25, 0x1p31, 0x1p40, 0x1p100}) {
    for (const double sign : {1.0, -1.0}) {
      expect_right(exact_scores(9, 300, size, sign), 1e-5, fmt::format("scores of {} x {}", size, sign));
    }
  }
}

TEST(HostNumbers, FractionsOfLargeScoresCount) {
  // From 2^21 to 2^23 float32 has halves or quarters: a key of score n + 1/2 weighs 1.41 times one of score n. Rounding
  // of so large scores makes them differ from the definition, so the sets are compared with each other.
  for (const double size : {0x1.8p22, 0x1.ap22, -0x1.ap22, 0x1.2p23, 0x1.4p23}) {
    HostCase test = exact_scores(2, 64, 1, 1);
    for (std::size_t j = 0; j < 64; ++j) test.k[4 * j] = size + 0.5 * double(j % 5);
    const kernels::ReferenceResult expected = host_answer(test, InstructionSet::baseline);
    for (const InstructionSet set : kernels::host::usable_instruction_sets()) {
      EXPECT_TRUE(close_to(host_answer(test, set).out, expected.out, 1e-5)) << size << ", " << name_of(set);
    }
  }
}

TEST(HostNumbers, LargeQueriesAndKeys) {
  // q, k up to 1e4 in float16 and float32: scores up to 1e9. Key 2 i + 1 equals query i, so it wins by far.
  for (const DType type : {DType::float16, DType::float32}) {
    HostCase test = plain_case(13, 40, 64, false);
    test.type = type;
    test.q = random_values(core::TensorId::q, test.query_numbers(), type, 1, 3000);
    test.k = random_values(core::TensorId::k, test.key_numbers(), type, 1, 10);
    for (Index i = 0; i < 13; ++i) std::copy_n(test.q.begin() + i * 64, 64, test.k.begin() + (2 * i + 1) * 64);
    test.v = random_values(core::TensorId::v, test.key_numbers(), type);
    expect_right(test, core::forward_tolerance(type), std::string(name_of(type)));
  }
}

TEST(HostNumbers, EqualScoresAverageTheValues) {
  HostCase test = plain_case(7, 1000, 16, true);
  test.fill();
  std::fill(test.k.begin(), test.k.end(), 0.5);
  expect_right(test, 1e-5, "equal keys");
}

TEST(HostNumbers, HugeValuesDoNotOverflow) {
  // Equal keys: the sum of the values, 1e41, is too large for float32, their mean is not.
  HostCase test = plain_case(7, 1000, 16, false);
  test.fill();
  std::fill(test.k.begin(), test.k.end(), 0.0);
  for (double& x : test.v) x = double(float(1e38 + x * 1e35));
  expect_right(test, 1e-5, "values of 1e38");
}

TEST(HostNumbers, MaximumRisesAndWeightsFallOutOfRange) {
  // Scores rise or fall by 50 from each 100 keys to the next 100: weights are 2^-72, 2^-144, ... of the largest, and
  // then vanish. 5 rows are less than a block of rows, 100 rows fill several blocks.
  for (const auto& [type, precision] :
       {std::pair{DType::float32, Precision::float32}, std::pair{DType::float64, Precision::float64}}) {
    for (const auto& [rows, rising] : {std::pair{5, true}, std::pair{100, true}, std::pair{100, false}}) {
      HostCase test = plain_case(rows, 1300, 1, false);
      test.type = type;
      test.precision = precision;
      test.q.assign(std::size_t(rows), 1.0);
      for (Index j = 0; j < 1300; ++j) test.k.push_back(double((rising ? j : 1299 - j) / 100) * 50);
      test.v = random_values(core::TensorId::v, 1300, type);
      expect_right(test, core::forward_tolerance(type), fmt::format("{}, {} rows", name_of(type), rows));
    }
  }
}

TEST(HostNumbers, OverflownScoresAreDefined) {
  // Keys with score +inf share all of the weight; a row with scores of -inf only is like a row without keys.
  for (const InstructionSet set : kernels::host::usable_instruction_sets()) {
    SCOPED_TRACE(name_of(set));
    HostCase test = plain_case(3, 40, 1, false);
    test.q = {double(2e30f), -double(2e30f), 1.0};
    for (Index j = 0; j < 40; ++j) test.k.push_back(j == 3 || j == 35 ? double(3e30f) : 1.0);
    for (Index j = 0; j < 40; ++j) test.v.push_back(double(j));
    const kernels::ReferenceResult actual = host_answer(test, set);
    EXPECT_NEAR(actual.out[0], 19, 1e-5);                 // keys 3 and 35
    EXPECT_NEAR(actual.out[1], (780 - 38) / 38.0, 1e-4);  // all other keys
    EXPECT_TRUE(std::isfinite(actual.out[2]));
    for (double& k : test.k) k = double(3e30f);
    const kernels::ReferenceResult none = host_answer(test, set);
    EXPECT_EQ(none.out[1], 0);
    EXPECT_EQ(none.lse[1], -std::numeric_limits<double>::infinity());
    EXPECT_NEAR(none.out[0], 19.5, 1e-5);
  }
}

TEST(HostNumbers, NotANumberShowsInTheRowsItConcerns) {
  for (const InstructionSet set : kernels::host::usable_instruction_sets()) {
    SCOPED_TRACE(name_of(set));
    HostCase test = plain_case(40, 40, 8, true);
    test.fill();
    test.k[20 * 8] = std::nan("");
    test.q[3 * 8] = std::nan("");
    const kernels::ReferenceResult actual = host_answer(test, set);
    for (Index i = 0; i < 40; ++i) EXPECT_EQ(std::isnan(actual.out[std::size_t(i * 8)]), i == 3 || i >= 20) << i;
  }
}

TEST(HostNumbers, SixteenBitStorageIsConvertedExactly) {
  // One key of weight 1 copies its value: the same bits must come out. NaN may change its payload, and infinities are
  // not compared.
  for (const DType type : {DType::float16, DType::bfloat16}) {
    for (const InstructionSet set : kernels::host::usable_instruction_sets()) {
      SCOPED_TRACE(std::string(name_of(type)) + " " + std::string(name_of(set)));
      for (const Precision precision : {Precision::float32, Precision::float64}) {
        HostCase test{{1, 0, 256, 256, 256}, 1, 1, type, precision};
        core::WorkList list;
        list.runs = {{0, 0, 1, 1}};
        for (Index h = 0; h < 256; ++h) {
          core::WorkItem item;
          item.query = item.key = {0, 1, 1};
          item.kv_head = item.head_first = h;
          list.items.push_back(item);
        }
        test.calls = {list};
        test.q.assign(65536, 0.0);
        test.k.assign(65536, 0.0);
        for (Index i = 0; i < 65536; ++i) {
          const std::uint16_t bits = std::uint16_t(i);
          test.v.push_back(from_storage(&bits, 1, type)[0]);
        }
        const kernels::ReferenceResult actual = host_answer(test, set);
        Index wrong = 0;
        for (std::size_t i = 0; i < 65536; ++i) {
          const double in = test.v[i], out = actual.out[i];
          // Weights are at most 2^-16 while values are summed: what is below 2^-110 may lose its last bits in float32.
          const bool tiny = precision == Precision::float32 && std::abs(in) < 0x1p-110 && std::abs(out) < 0x1p-109;
          wrong += !(in == out || (std::isnan(in) && std::isnan(out)) || tiny || std::isinf(in));
        }
        EXPECT_EQ(wrong, 0);
      }
    }
  }
}

/// One query x for each weight. Two keys have scores 0 and x and values 0 and 1: out = w / (1 + w), w = e^x.
TEST(HostNumbers, WeightsAreAccurateToRounding) {
  for (const auto& [type, precision, tolerance] :
       {std::tuple{DType::float32, Precision::float32, 6e-7}, std::tuple{DType::float64, Precision::float64, 8e-16}}) {
    HostCase test = plain_case(3000, 2, 1, false);
    test.type = type;
    test.precision = precision;
    for (Index i = 0; i < 2000; ++i) test.q.push_back(-double(i) / 512);
    // Just above, at and just below multiples of 1/16 in base 2; the last score is almost 0.
    for (Index i = 0; i < 999; ++i) {
      const double step = -double(i / 3) / 16 * std::log(2.0), ulp = type == DType::float64 ? 0x1p-52 : 0x1p-23;
      test.q.push_back(step * (1 + double(i % 3 - 1) * ulp));
    }
    test.q.push_back(-1e-30);
    test.k = {0, 1};
    test.v = {0, 1};
    for (const InstructionSet set : kernels::host::usable_instruction_sets()) {
      const kernels::ReferenceResult actual = host_answer(test, set);
      for (std::size_t i = 0; i < test.q.size(); ++i) {
        const double w = std::exp(test.q[i]), expected = w / (1 + w);
        // The score itself is rounded in base 2: the divisor allows for that error, too.
        ASSERT_LE(std::abs(actual.out[i] / expected - 1) / (1 + std::abs(test.q[i])), tolerance)
            << name_of(type) << " " << name_of(set) << ", score " << test.q[i];
      }
    }
  }
}

/// Two keys of equal weight: out is the mean of their values. The mean of two neighbours of a 16-bit type lies halfway
/// between them and must become the even one.
TEST(HostNumbers, SixteenBitResultsAreRoundedToNearestEven) {
  for (const DType type : {DType::float16, DType::bfloat16}) {
    HostCase test = plain_case(1, 2, 256, false);
    test.type = type;
    test.q.assign(256, 0.0);
    test.k.assign(512, 0.0);
    test.v.assign(512, 0.0);
    const std::uint16_t one = type == DType::float16 ? 0x3c00 : 0x3f80;
    std::vector<double> even;
    for (Index i = 0; i < 256; ++i) {
      const std::uint16_t low = std::uint16_t((one + i / 2) | (i % 2 ? 0x8000 : 0)), high = std::uint16_t(low + 1);
      test.v[std::size_t(i)] = from_storage(&low, 1, type)[0];
      test.v[std::size_t(256 + i)] = from_storage(&high, 1, type)[0];
      even.push_back(test.v[std::size_t(low % 2 ? 256 + i : i)]);
    }
    for (const InstructionSet set : kernels::host::usable_instruction_sets())
      EXPECT_EQ(host_answer(test, set).out, even) << name_of(type) << " " << name_of(set);
  }
}

}  // namespace
}  // namespace annulus::test
