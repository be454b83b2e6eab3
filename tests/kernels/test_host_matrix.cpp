// Instruction set amx: matrix units, and the vector code that replaces them, give the same bits, for any cut between
// granules. Accuracy, bands and numbers that are not finite are tested with those of the other sets.
#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cstring>
#include <random>

#include "annulus/core/amx.hpp"
#include "kernels/matrix_case.hpp"

namespace annulus::test {
namespace {

using core::Band;
using core::Precision;
using kernels::host::MatrixUnit;
using kernels::host::usable_matrix_units;

float bits_as_float(std::uint32_t bits) {
  float x = 0;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}
std::uint32_t bits_of(float x) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

/// Operands and sums of one product of tiles.
struct Product {
  alignas(64) std::uint16_t a[512], b[512];
  alignas(64) float c[256];
};
enum class Kind { about_one, of_7_bits, of_37_bits, denormal, overflowing, any };
constexpr Kind all_kinds[] = {Kind::about_one, Kind::of_7_bits,   Kind::of_37_bits,
                              Kind::denormal,  Kind::overflowing, Kind::any};

std::uint16_t number_of(Kind kind, std::mt19937& random) {
  const auto between = [&](unsigned low, unsigned high) { return low + random() % (high - low); };
  const unsigned mantissa = random() & 0x807fu;
  switch (kind) {
    case Kind::about_one:
      return std::uint16_t(mantissa | between(126, 129) << 7);
    case Kind::of_7_bits:
      return std::uint16_t(mantissa | between(120, 135) << 7);
    case Kind::of_37_bits:
      return std::uint16_t(mantissa | between(90, 165) << 7);
    case Kind::denormal:  // numbers, or products, below the normal ones
      return std::uint16_t(mantissa | (random() % 3 ? between(0, 80) : 0) << 7);
    case Kind::overflowing:
      return std::uint16_t(mantissa | (random() % 8 ? between(180, 255) : between(60, 190)) << 7);
    case Kind::any:
      break;
  }
  return std::uint16_t(random());
}
Product random_product(Kind kind, std::mt19937& random) {
  Product p;
  for (std::uint16_t& x : p.a) x = number_of(kind, random);
  for (std::uint16_t& x : p.b) x = number_of(kind, random);
  for (float& x : p.c) x = bits_as_float(std::uint32_t(number_of(kind, random)) << 16 | (random() & 0xffffu));
  return p;
}

/// c + (even + odd): two chains of fused multiply-adds from +0. Right if no number and no sum is denormal.
float model(const Product& p, int row, int column) {
  float chains[2] = {0, 0};
  for (int k = 0; k < 32; ++k) {
    const float a = bits_as_float(std::uint32_t(p.a[row * 32 + k]) << 16);
    const float b = bits_as_float(std::uint32_t(p.b[k / 2 * 32 + column * 2 + k % 2]) << 16);
    chains[k % 2] = std::fma(a, b, chains[k % 2]);
  }
  return p.c[row * 16 + column] + (chains[0] + chains[1]);
}

bool same_number(float x, float y) { return bits_of(x) == bits_of(y) || (std::isnan(x) && std::isnan(y)); }

TEST(HostMatrix, ProductsOfTilesAreThoseOfTheModel) {
  std::mt19937 random(7);
  for (const Kind kind : {Kind::about_one, Kind::of_7_bits, Kind::overflowing}) {
    for (int trial = 0; trial < 40; ++trial) {
      const Product p = random_product(kind, random);
      for (const MatrixUnit& unit : usable_matrix_units()) {
        Product mine = p;
        unit.multiply(mine.a, mine.b, mine.c);
        for (int i = 0; i < 256; ++i)
          ASSERT_TRUE(same_number(mine.c[i], model(p, i / 16, i % 16))) << unit.name << ", kind " << int(kind);
      }
    }
  }
}

TEST(HostMatrix, NoUnitUsesInstructionsBeyondTheSet) {
  for (const InstructionSet set : kernels::host::usable_instruction_sets())
    EXPECT_LE(kernels::host::matrix_unit(set).set, set) << name_of(set);
  EXPECT_EQ(&kernels::host::matrix_unit(InstructionSet::amx), &usable_matrix_units().back());
}

TEST(HostMatrix, ProductsOfTilesHaveTheSameBitsOnEveryUnit) {
  std::mt19937 random(8);
  for (const Kind kind : all_kinds) {
    for (int trial = 0; trial < 300; ++trial) {
      const Product p = random_product(kind, random);
      Product first = p;
      usable_matrix_units().front().multiply(first.a, first.b, first.c);
      for (const MatrixUnit& unit : usable_matrix_units()) {
        Product mine = p;
        unit.multiply(mine.a, mine.b, mine.c);
        for (int i = 0; i < 256; ++i)
          ASSERT_TRUE(same_number(mine.c[i], first.c[i])) << unit.name << ", kind " << int(kind) << ", " << i;
      }
    }
  }
}

/// The kinds to test with head size D. Numbers in parts take many products, so only some head sizes test them.
std::vector<MatrixKind> kinds_of(Index D) {
  if (D == 1 || D == 24 || D == 33) return matrix_kinds;
  return {matrix_kinds.front()};
}

/// Each kind of kinds_of(D) with each of these values.
template <class Value>
std::vector<std::pair<MatrixKind, Value>> with_kinds(Index D, std::initializer_list<Value> values) {
  std::vector<std::pair<MatrixKind, Value>> all;
  for (const MatrixKind& kind : kinds_of(D))
    for (const Value& value : values) all.emplace_back(kind, value);
  return all;
}

void expect_same_by_all(const WorkCase& test, const std::string& what) {
  const kernels::ReferenceResult first = answer_by(test, usable_matrix_units().front());
  for (const MatrixUnit& unit : usable_matrix_units()) {
    const kernels::ReferenceResult mine = answer_by(test, unit);
    expect_same(mine.out, first.out, fmt::format("out, {}, {}", unit.name, what));
    expect_same(mine.lse, first.lse, fmt::format("lse, {}, {}", unit.name, what));
  }
}

TEST(HostMatrix, EveryUnitHasTheSameBits) {
  for (const Index D : {1, 8, 16, 33, 64, 80, 96, 128, 176, 256}) {
    for (const Band& band : {Band::all, Band::upto, Band{40, 25}}) {
      for (const double amplitude : {1., 30.})
        for (const MatrixKind& kind : kinds_of(D))
          expect_same_by_all(in_kind(kind, with_band(plain_case(97, 131, D, false), band), amplitude),
                             fmt::format("{}, D {}, band {}, amplitude {}", kind.name(), D, name_of(band), amplitude));
    }
  }
}

TEST(HostMatrix, EveryUnitHasTheSameBitsOfNumbersThatAreNotFinite) {
  const double inf = std::numeric_limits<double>::infinity();
  for (const Band& band : {Band::all, Band::upto}) {
    for (int which = 0; which < 4 * int(matrix_kinds.size()); ++which) {
      const MatrixKind& kind = matrix_kinds[std::size_t(which / 4)];
      WorkCase test = in_kind(kind, with_band(plain_case(70, 150, 40, false), band));
      std::vector<double>& tensor = which % 4 == 0 ? test.q : which % 4 == 1 ? test.k : test.v;
      for (std::size_t i = 11; i < tensor.size(); i += 977)
        tensor[i] = i % 3 == 0 ? std::nan("") : i % 3 == 1 ? inf : -inf;
      if (which % 4 == 3) test.v.back() = 1e38;
      expect_same_by_all(test, fmt::format("{}, band {}, tensor {}", kind.name(), name_of(band), which % 4));
    }
  }
}

void expect_same_gradients(const BackwardCase& test, const kernels::ReferenceResult& forward, const std::string& what) {
  const Gradients first = gradients_by(test, forward, usable_matrix_units().front());
  for (const MatrixUnit& unit : usable_matrix_units()) {
    const Gradients mine = gradients_by(test, forward, unit);
    expect_same(mine.dq, first.dq, fmt::format("dq, {}, {}", unit.name, what));
    expect_same(mine.dk, first.dk, fmt::format("dk, {}, {}", unit.name, what));
    expect_same(mine.dv, first.dv, fmt::format("dv, {}, {}", unit.name, what));
  }
}

TEST(HostMatrix, EveryUnitHasTheSameBitsOfGradients) {
  for (const Index D : {1, 8, 33, 64, 80, 128, 176, 256}) {
    for (const Band& band : {Band::all, Band::upto, Band{40, 25}}) {
      for (const double amplitude : {1., 30.}) {
        for (const MatrixKind& kind : kinds_of(D)) {
          const BackwardCase test = gradients_in(kind, 97, 331, D, band, amplitude);
          expect_same_gradients(
              test, stored_forward(test),
              fmt::format("{}, D {}, band {}, amplitude {}", kind.name(), D, name_of(band), amplitude));
        }
      }
    }
  }
}

TEST(HostMatrix, EveryUnitHasTheSameBitsOfGradientsThatAreNotFinite) {
  const double inf = std::numeric_limits<double>::infinity();
  for (int number = 0; number < 4 * int(matrix_kinds.size()); ++number) {
    const int which = number % 4;
    BackwardCase test = gradients_in(matrix_kinds[std::size_t(number / 4)], 100, 130, 40, Band::upto);
    const kernels::ReferenceResult forward = stored_forward(test);
    std::vector<double>& tensor = which == 0 ? test.q : which == 1 ? test.k : which == 2 ? test.v : test.dout;
    for (std::size_t i = 11; i < tensor.size(); i += 977)
      tensor[i] = i % 3 == 0 ? std::nan("") : i % 3 == 1 ? inf : -inf;
    expect_same_gradients(test, forward,
                          fmt::format("{} in {}, tensor {}", core::name_of(test.type), name_of(test.precision), which));
  }
}

/// Cuts the case's comb into calls: keys in pieces of whole granules, the last first; query rows in pieces of `rows`.
WorkCase cut_between_granules(WorkCase test, Index granules, Index rows) {
  const core::WorkList whole = test.calls[0];
  const Index n = test.key_rows, step = granules * 32;
  test.calls.clear();
  for (Index first = 0; first < test.query_rows; first += rows) {
    const Index count = std::min(rows, test.query_rows - first);
    for (Index begin = (n - 1) / step * step; begin >= 0; begin -= step) {
      core::WorkList list = whole;
      list.runs[0] = {first, first, 1, count};
      list.runs[1] = {begin, begin, 1, std::min(step, n - begin)};
      list.items[0].query.count = count;
      list.items[0].key.count = std::min(step, n - begin);
      test.calls.push_back(list);
    }
  }
  return test;
}

TEST(HostMatrix, BitsAreThoseOfAnyCutBetweenGranules) {
  for (const Index D : {24, 64, 128}) {
    for (const Band& band : {Band::all, Band::upto}) {
      for (const auto& [kind, amplitude] : with_kinds<double>(D, {1., 8.})) {
        const WorkCase test = in_kind(kind, with_band(plain_case(333, 333, D, false), band), amplitude);
        const MatrixUnit& unit = usable_matrix_units().back();
        const kernels::ReferenceResult whole = answer_by(test, unit);
        for (const auto& [granules, rows, tile_keys] :
             {std::tuple(1, 333, 0), std::tuple(3, 47, 0), std::tuple(2, 10, 65), std::tuple(11, 333, 1)}) {
          const kernels::ReferenceResult cut =
              answer_by(cut_between_granules(test, granules, rows), unit, {tile_keys, rows});
          const std::string what =
              fmt::format("{}, D {}, band {}, {} granules", kind.name(), D, name_of(band), granules);
          expect_same(cut.out, whole.out, what);
          expect_same(cut.lse, whole.lse, what);
        }
      }
    }
  }
}

/// The same for gradients: keys in pieces of granules, the last first; rows in pieces of granules, the first first.
BackwardCase gradients_between_granules(BackwardCase test, Index key_granules, Index row_granules) {
  const core::WorkList whole = test.calls[0];
  const Index keys = test.key_rows, rows = test.query_rows, key_step = key_granules * 32, row_step = row_granules * 32;
  test.calls.clear();
  for (Index key = (keys - 1) / key_step * key_step; key >= 0; key -= key_step) {
    for (Index row = 0; row < rows; row += row_step) {
      core::WorkList list = whole;
      list.items[0].key.count = std::min(key_step, keys - key);
      list.items[0].query.count = std::min(row_step, rows - row);
      list.runs[0] = {row, row, 1, list.items[0].query.count};
      list.runs[1] = {key, key, 1, list.items[0].key.count};
      test.calls.push_back(list);
    }
  }
  return test;
}

TEST(HostMatrix, GradientsHaveTheBitsOfAnyCutBetweenGranules) {
  for (const Index D : {24, 64, 128}) {
    for (const auto& [kind, band] : with_kinds<Band>(D, {Band::all, Band::upto, Band::after})) {
      const BackwardCase test = gradients_in(kind, 1333, 555, D, band, 3);
      const kernels::ReferenceResult forward = stored_forward(test);
      const MatrixUnit& unit = usable_matrix_units().back();
      const Gradients whole = gradients_by(test, forward, unit, true);
      for (const auto& [keys, rows] : {std::pair(1, 100), std::pair(3, 5), std::pair(100, 2)}) {
        const Gradients cut = gradients_by(gradients_between_granules(test, keys, rows), forward, unit, true);
        const std::string what =
            fmt::format("{}, D {}, band {}, {} and {} granules", kind.name(), D, name_of(band), keys, rows);
        expect_same(cut.dq, whole.dq, "dq, " + what);
        expect_same(cut.dk, whole.dk, "dk, " + what);
        expect_same(cut.dv, whole.dv, "dv, " + what);
      }
    }
  }
}

TEST(HostMatrix, WhatItDoesNotDoIsLeftToVectors) {
  WorkCase test = in_kind(matrix_kinds[0], plain_case(40, 40, 16, true));
  EXPECT_EQ(kernels::host::why_not_matrix(kernels::State(test.shape, 40, Precision::bfloat16)), "");
  const kernels::State biased(test.shape, 40, Precision::bfloat16, kernels::reproducible_exponent_bias);
  const kernels::State entropy(test.shape, 40, Precision::bfloat16, 0, true);
  EXPECT_NE(kernels::host::why_not_matrix(biased), "");
  EXPECT_NE(kernels::host::why_not_matrix(entropy), "");
  kernels::BackwardOperands operands;
  EXPECT_EQ(kernels::host::why_not_matrix(operands, {}), "");
  operands.any_cut = true;
  EXPECT_NE(kernels::host::why_not_matrix(operands, {}), "");
}

#if defined(__x86_64__)
/// Whether this thread has configured tiles. XGETBV with ecx = 1 returns which parts of the processor's state are in
/// use; bits 17 and 18 are the tiles. A processor without AMX may not know the instruction.
bool tiles_are_configured() {
  if (!core::processor_has_amx()) return false;
  unsigned low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(1));
  return (low >> 17 & 3u) != 0;
}

TEST(HostMatrix, LeavesNoTilesConfigured) {
  const WorkCase test = in_kind(matrix_kinds[0], plain_case(200, 200, 64, true));
  bool during_poll = false;
  host_answer(test, InstructionSet::amx, [&] { during_poll |= tiles_are_configured(); });
  EXPECT_FALSE(during_poll);
  EXPECT_FALSE(tiles_are_configured());
}
#endif

}  // namespace
}  // namespace annulus::test
