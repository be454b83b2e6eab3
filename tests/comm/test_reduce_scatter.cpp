// Sums over ranks. Each rank makes its numbers piece by piece; pieces may be uneven or empty. Numbers encode their
// maker and index.
#include "annulus/comm/reduce_scatter.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "annulus/core/buffer.hpp"
#include "annulus/core/memory.hpp"

namespace annulus::comm {
namespace {

using core::Precision;

/// What rank `maker` adds to number `i` of the whole array.
double share(int maker, Index i) { return double(i + 1) * double(1 << 2 * maker); }

template <class Number>
void check(const Communicator& comm, const std::vector<Index>& numbers) {
  constexpr Precision precision = sizeof(Number) == 8 ? Precision::float64 : Precision::float32;
  std::vector<Index> begins{0};
  for (const Index count : numbers) begins.push_back(begins.back() + count);
  const Index own = numbers[std::size_t(comm.rank())];
  const core::Buffer sum("test", own * Index(sizeof(Number)));
  std::vector<int> made;
  Exchange exchange(comm);
  const auto make = [&](int rank, void* piece) {
    made.push_back(rank);
    std::vector<Number> values;
    for (Index i = begins[std::size_t(rank)]; i < begins[std::size_t(rank) + 1]; ++i) {
      values.push_back(Number(share(comm.rank(), i)));
    }
    core::copy_to_device(piece, values.data(), Index(values.size() * sizeof(Number)));
    exchange.progress();
  };
  core::memory_ledger().reset_peak();
  const auto [sent, received] = reduce_scatter(comm, exchange, precision, numbers, make, sum.data());

  std::vector<Number> result(static_cast<std::size_t>(own));
  core::copy_to_host(result.data(), sum.data(), sum.bytes());
  for (Index i = 0; i < own; ++i) {
    double expected = 0;
    for (int maker = 0; maker < comm.size(); ++maker) {
      expected += share(maker, begins[std::size_t(comm.rank())] + i);
    }
    EXPECT_EQ(double(result[std::size_t(i)]), expected) << "number " << i;
  }
  std::sort(made.begin(), made.end());
  std::vector<int> wanted;  // every piece once, empty ones never
  Index others = 0, largest = 0;
  for (int p = 0; p < comm.size(); ++p) {
    if (numbers[std::size_t(p)] > 0) wanted.push_back(p);
    if (p != comm.rank()) others += numbers[std::size_t(p)];
    largest = std::max(largest, numbers[std::size_t(p)]);
  }
  EXPECT_EQ(made, wanted);
  EXPECT_EQ(sent, others * Index(sizeof(Number)));
  EXPECT_EQ(received, own * (comm.size() - 1) * Index(sizeof(Number)));
  const Index pieces = core::memory_ledger().peak_by_purpose()["pieces of sums"];
  EXPECT_LE(pieces, 3 * largest * Index(sizeof(Number)));
  EXPECT_GE(pieces, comm.size() > 1 ? largest * Index(sizeof(Number)) : 0);
}

TEST(ReduceScatter, GivesEveryRankItsPieceOfTheSum) {
  const Communicator comm(MPI_COMM_WORLD);
  std::vector<Index> even(std::size_t(comm.size()), 5), uneven, first_only, last_only, none;
  for (Index p = 0; p < comm.size(); ++p) {
    uneven.push_back(1000 * p + 3);
    first_only.push_back(p == 0 ? 7 : 0);
    last_only.push_back(p == comm.size() - 1 ? 9 : 0);
    none.push_back(0);
  }
  for (const auto& numbers : {even, uneven, first_only, last_only, none}) {
    check<double>(comm, numbers);
    check<float>(comm, numbers);
  }
}

}  // namespace
}  // namespace annulus::comm
