// Results that are stored in another type than the numbers in memory have.
#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>

#include "annulus/core/storage.hpp"
#include "annulus/store/number_type.hpp"
#include "annulus/store/output_file.hpp"
#include "store/tensor_inputs.hpp"

namespace annulus::store {
namespace {

using core::DType;
using core::Half;
using core::Interval;
using core::Shape;
using test::SharedFolder;

TEST(Convert, IsExactUpwardsAndRoundsToNearestDownwards) {
  std::vector<Half> halves;
  for (unsigned bits = 0; bits < 0x7c00; ++bits) halves.push_back({std::uint16_t(bits)});  // all finite ones >= 0
  std::vector<double> doubles(halves.size());
  convert({halves.data(), DType::float16}, {doubles.data(), DType::float64}, core::Index(halves.size()));
  for (std::size_t i = 0; i < halves.size(); ++i) ASSERT_EQ(doubles[i], double(core::to_float(halves[i])));
  EXPECT_EQ(doubles.back(), 65504);
  std::vector<double> fine{1 + 0x1p-24, 1 + 0x1.8p-24, -1e-300, DBL_MAX, -INFINITY};
  std::vector<float> coarse(5);
  convert({fine.data(), DType::float64}, {coarse.data(), DType::float32}, 5);
  EXPECT_EQ(coarse, (std::vector<float>{1, 1 + 0x1p-23f, -0.0f, INFINITY, -INFINITY}));
  std::vector<float> same(5);
  convert({coarse.data(), DType::float32}, {same.data(), DType::float32}, 5);
  EXPECT_EQ(same, coarse);
}

const Shape shape{2, 29, 3, 3, 5};  // 870 numbers

/// Number i of the tensor (B, S, H, D); no two of them are equal.
Half half_of(std::size_t i) { return {std::uint16_t(0x3c00 + i)}; }

/// The ranks get two rows in turn, so that every rank has several intervals.
pattern::Partition dealt(const comm::Communicator& comm) {
  return pattern::block_cyclic_partition(shape.sequence, comm.size(), 2);
}
std::vector<Interval> mine(const comm::Communicator& comm) { return dealt(comm)[std::size_t(comm.rank())].intervals(); }

template <class Stored>
void write_halves(const std::string& path, DType type, core::AxisOrder order, const comm::Communicator& comm) {
  std::vector<Half> all(870);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = half_of(i);
  const std::vector<Half> rows = test::rows_of(all, 2, 15, mine(comm));
  OutputFile file(output_plan({path, true}, {tensor_spec("out", type, shape, order)}), comm);
  file.write({{"out", rows.data(), DType::float16}}, mine(comm), RowOwners(dealt(comm)));
  file.publish({});
  std::vector<Stored> found(870);
  InspectedFile seen = test::inspected_file(comm, path, {"out"});
  EXPECT_EQ(seen.at("out").type, type);
  seen.datasets["out"].order = order;
  read_rows(seen, {"out", found.data()}, {{0, shape.sequence}});  // (B, S, H, D), whatever the order in the file
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i], Stored(core::to_float(half_of(i)))) << i;
}

TEST(OutputType, HalvesAreStoredAsWiderNumbersInEitherOrder) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  const SharedFolder folder(comm);
  for (const core::AxisOrder order : {core::AxisOrder::bshd, core::AxisOrder::bhsd}) {
    write_halves<float>(folder / "32.h5", DType::float32, order, comm);
    write_halves<double>(folder / "64.h5", DType::float64, order, comm);
    comm.barrier();
  }
}

TEST(OutputType, PartsOfMatricesToo) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  const SharedFolder folder(comm);
  const std::string path = folder / "dw.h5";
  constexpr Index rows = 11, columns = 6;
  std::vector<double> all = test::counting<double>(rows * columns, 0.1);
  OutputFile file(output_plan({path, false}, {{"dw", DType::float32, {rows, columns}, "width q_width"}}), comm);
  // Every rank keeps the matrix without first row and column, and writes some of its rows. Rank 0 also writes the first
  // row and column.
  const Rectangle kept{{1, rows}, {1, columns}};
  std::vector<double> inner;
  for (Index r = 1; r < rows; ++r) {
    for (Index c = 1; c < columns; ++c) inner.push_back(all[std::size_t(r * columns + c)]);
  }
  const Interval share = test::share(rows - 1, comm);
  const Rectangle whole{{0, rows}, {0, columns}};
  const auto rank_of = [&](const std::string&) -> RankOf {
    return [&](const OneNumber& at) {
      for (int rank = 0; rank < comm.size() && at.row > 0 && at.head > 0; ++rank) {
        if (at.row - 1 < (rows - 1) * (rank + 1) / comm.size()) return rank;
      }
      return 0;
    };
  };
  const auto only_root = [&](const Rectangle& part) { return comm.is_root() ? part : Rectangle{}; };
  file.write_parts({{"dw", only_root({{0, rows}, {0, 1}}), whole, all.data(), DType::float64}}, rank_of);
  file.write_parts({{"dw", only_root({{0, 1}, {1, columns}}), whole, all.data(), DType::float64}}, rank_of);
  file.write_parts({{"dw", {{share.begin + 1, share.end + 1}, {1, columns}}, kept, inner.data(), DType::float64}},
                   rank_of);
  file.publish({});
  std::vector<float> found(all.size());
  read_part(test::inspected_file(comm, path, {"dw"}), {"dw", whole, whole, found.data()});
  EXPECT_EQ(found, std::vector<float>(all.begin(), all.end()));
}

TEST(OutputType, NumbersBeyondItsRangeAreEveryonesError) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  const SharedFolder folder(comm);
  const std::string path = folder / "out.h5";
  std::vector<double> all(870, 1);
  all.back() = 4e38;  // one rank has this number
  const std::vector<double> rows = test::rows_of(all, 2, 15, mine(comm));
  {
    OutputFile file(output_plan({path, false}, {tensor_spec("out", DType::float32, shape)}), comm);
    const std::string message = test::common_error(comm, [&] {
      file.write({{"out", rows.data(), DType::float64}}, mine(comm), RowOwners(dealt(comm)));
    });
    EXPECT_NE(
        message.find("dataset out: the number for [1, 28, 2, 4] does not fit float32: set output.type to a wider"),
        std::string::npos)
        << message;
  }
  comm.barrier();
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace annulus::store
