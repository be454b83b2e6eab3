// Fingerprints of data depend on the numbers and their positions only.
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "annulus/store/fingerprint.hpp"
#include "store/tensor_inputs.hpp"

namespace annulus::store {
namespace {

using core::Interval;
using test::counting;

class FingerprintTest : public testing::Test {
 protected:
  const comm::Communicator comm{MPI_COMM_WORLD};

  /// Fingerprint of the numbers `all` (B, S, row), of which this rank holds `rows`.
  template <class T>
  std::uint64_t of(const std::vector<T>& all, Index batch, Index row, const std::vector<Interval>& rows) const {
    const std::vector<T> held = test::rows_of(all, batch, row, rows);
    return fingerprint({held.data(), rows, batch, Index(all.size()) / batch / row, row * Index(sizeof(T))}, comm);
  }
  template <class T>
  std::uint64_t of(const std::vector<T>& all, Index batch, Index row) const {
    return of(all, batch, row, {test::share(Index(all.size()) / batch / row, comm)});
  }
  /// Rows p, p + P, ... of rank p of P.
  std::vector<Interval> dealt(Index rows) const {
    std::vector<Interval> mine;
    for (Index x = comm.rank(); x < rows; x += comm.size()) mine.push_back({x, x + 1});
    return mine;
  }
};

TEST_F(FingerprintTest, DoesNotDependOnRanksAndCuts) {
  // Rows of 3 numbers (less than a block of 64 bytes), of 16 (one block) and of 37.
  const std::pair<Index, std::uint64_t> cases[] = {
      {3, 370295814291561648u}, {16, 3697385687474216202u}, {37, 11938009137079476356u}};
  for (const auto& [row, expected] : cases) {
    const auto all = counting<float>(std::size_t(2 * 11 * row));
    EXPECT_EQ(of(all, 2, row, dealt(11)), of(all, 2, row)) << row;
    EXPECT_EQ(of(all, 2, row), expected) << row << ": checkpoints store it, so it must not change";
  }
}

TEST_F(FingerprintTest, OfBytesInAFileIsTheSumOverItsLinesAndEveryBitCounts) {
  for (const Index line : {1, 4, 6, 8, 20, 256}) {
    std::vector<std::byte> bytes(std::size_t(7 * line));
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = std::byte(37 * i + i / 256 + 11);
    const auto share = [&](Index first, Index count) {
      return fingerprint_at(1000 + first * line, bytes.data() + first * line, count * line, line);
    };
    const std::uint64_t whole = share(0, 7);
    EXPECT_EQ(share(5, 2) + share(0, 2) + share(2, 3), whole) << line;
    for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
      bytes[bit / 8] ^= std::byte(1 << bit % 8);
      EXPECT_NE(share(0, 7), whole) << line << ", bit " << bit;
      bytes[bit / 8] ^= std::byte(1 << bit % 8);
    }
    std::swap_ranges(bytes.begin(), bytes.begin() + line, bytes.begin() + 3 * line);
    EXPECT_NE(share(0, 7), whole) << line << ": a line that has moved";
  }
  std::vector<std::byte> large(std::size_t(1) << 20);  // enough for several threads
  EXPECT_EQ(fingerprint_at(1 << 20, large.data(), 1 << 20, 64), 0u) << "zeros add nothing";
  large[77777] = std::byte(1);
  EXPECT_EQ(fingerprint_at(1 << 20, large.data(), 1 << 20, 64),
            fingerprint_at((1 << 20) + 77760, large.data() + 77760, 32, 32));
  // The sign bits of two numbers are the highest bits of their 64-bit words.
  std::vector<std::byte> signs(16);
  signs[7] = signs[15] = std::byte(128);
  EXPECT_NE(fingerprint_at(0, signs.data(), 16, 16), 0u);
}

TEST_F(FingerprintTest, OfAMatrixIsTheSumOverItsPartsAndEveryBitCounts) {
  // 5 x 7 numbers: the whole matrix, four parts of it in the same memory, and one corner in memory of its own.
  std::vector<float> all = counting<float>(5 * 7);
  const auto share = [&](Interval rows, Interval columns, std::uint64_t matrix = 2) {
    return fingerprint_share({"wq", {rows, columns}, {{0, 5}, {0, 7}}, all.data(), core::DType::float32}, matrix);
  };
  const std::uint64_t whole = share({0, 5}, {0, 7});
  EXPECT_EQ(whole, 6008254559132532773u) << "checkpoints store it, so it must not change";
  EXPECT_EQ(share({0, 2}, {0, 3}) + share({0, 2}, {3, 7}) + share({2, 5}, {0, 6}) + share({2, 5}, {6, 7}), whole);
  std::vector<float> corner(all.end() - 1, all.end());
  EXPECT_EQ(fingerprint_share({"wq", {{4, 5}, {6, 7}}, {{4, 5}, {6, 7}}, corner.data(), core::DType::float32}, 2),
            share({4, 5}, {6, 7}));
  EXPECT_EQ(share({0, 0}, {0, 7}), 0u);
  std::set<std::uint64_t> seen{whole, share({0, 5}, {0, 7}, 3)};
  for (float& number : all) {
    for (int bit = 0; bit < 32; ++bit) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, &number, 4);
      const std::uint32_t flipped = bits ^ 1u << bit;
      std::memcpy(&number, &flipped, 4);
      seen.insert(share({0, 5}, {0, 7}));
      std::memcpy(&number, &bits, 4);
    }
  }
  std::swap(all[3], all[4]);
  seen.insert(share({0, 5}, {0, 7}));
  EXPECT_EQ(seen.size(), 2u + 5 * 7 * 32 + 1);
}

TEST_F(FingerprintTest, EveryBitOfEveryNumberCounts) {
  const Index row = 19;
  std::vector<float> all = counting<float>(std::size_t(2 * 5 * row), 1);
  std::set<std::uint64_t> seen{of(all, 2, row)};
  for (std::size_t i = 0; i < all.size(); i += 7) {
    for (const int bit : {0, 13, 31}) {
      std::vector<float> other = all;
      std::uint32_t bits = 0;
      std::memcpy(&bits, &other[i], 4);
      bits ^= 1u << bit;
      std::memcpy(&other[i], &bits, 4);
      EXPECT_TRUE(seen.insert(of(other, 2, row)).second) << i << ", bit " << bit;
    }
  }
}

TEST_F(FingerprintTest, PlacesCount) {
  const Index row = 16;
  const auto all = counting<double>(std::size_t(2 * 6 * row), 1);
  std::set<std::uint64_t> seen{of(all, 2, row)};
  const auto expect_new = [&](const char* what, const std::vector<double>& numbers) {
    EXPECT_TRUE(seen.insert(of(numbers, 2, row)).second) << what;
  };
  auto other = all;
  for (double& x : other) x = -x;  // only sign bits change, in all lanes
  expect_new("negated", other);
  other = all;
  std::swap_ranges(other.begin(), other.begin() + row, other.begin() + row);
  expect_new("two rows swapped", other);
  other = all;
  std::swap_ranges(other.begin(), other.begin() + 6 * row, other.begin() + 6 * row);
  expect_new("batch entries swapped", other);
  other = all;
  std::swap(other[3], other[11]);  // both are in one lane (fingerprint.cpp)
  expect_new("numbers of a row swapped", other);
  other.assign(all.size(), 0);
  expect_new("zeros", other);
  other.insert(other.end(), std::size_t(2 * row), 0.0);
  expect_new("a row more", other);
}

TEST_F(FingerprintTest, OfDocuments) {
  EXPECT_NE(fingerprint({0, 20, 53}), fingerprint({0, 21, 53}));
  EXPECT_NE(fingerprint({0, 0, 53}), fingerprint({0, 53, 53}));
  EXPECT_EQ(fingerprint({0, 20, 53}), fingerprint({0, 20, 53}));
}

}  // namespace
}  // namespace annulus::store
