// Writes and reads tensors whose axes have another order in the file than in memory.
#include <gtest/gtest.h>

#include <limits>

#include "annulus/store/output_file.hpp"
#include "store/tensor_inputs.hpp"

namespace annulus::store {
namespace {

using core::DType;
using core::Interval;
using core::Shape;
using test::add_dataset;
using test::common_error;
using test::counting;
using test::rows_of;
using test::settings_for;

class AxesTest : public test::InputFileTest {
 protected:
  /// The ranks get blocks of `block` rows in turn; if there are several ranks, the last one gets none.
  pattern::Partition dealt_to_all(Index rows, Index block) const {
    pattern::Partition all = pattern::block_cyclic_partition(rows, std::max(1, comm.size() - 1), block);
    all.resize(std::size_t(comm.size()));
    return all;
  }
  std::vector<Interval> dealt(Index rows, Index block) const {
    return dealt_to_all(rows, block)[std::size_t(comm.rank())].intervals();
  }
};

/// (B, X, Y, row) -> (B, Y, X, row)
template <class T>
std::vector<T> transposed(const std::vector<T>& all, Index batch, Index x, Index y) {
  const Index row = Index(all.size()) / batch / x / y;
  std::vector<T> other;
  for (Index b = 0; b < batch; ++b) {
    for (Index j = 0; j < y; ++j) {
      for (Index i = 0; i < x; ++i) {
        const auto from = all.begin() + ((b * x + i) * y + j) * row;
        other.insert(other.end(), from, from + row);
      }
    }
  }
  return other;
}

/// Writes and reads tensors of storage type `type`. T has as many bytes as a stored number. Each number shows its
/// position.
template <class T>
void expect_round_trip(const comm::Communicator& comm, const std::string& path, DType type, const Shape& s,
                       const std::vector<Interval>& rows, const RowOwners& owners) {
  const Index row = s.heads * s.head_dim;
  std::vector<T> q = counting<T>(std::size_t(s.batch * s.sequence * row));
  if constexpr (sizeof(T) == 2) {
    for (T& bits : q) bits = T(bits % 0x7c00);  // finite in either 16-bit type
  }
  const std::vector<T> mine = rows_of(q, s.batch, row, rows);
  OutputFile file(
      output_plan({path, true}, {tensor_spec("q", type, s, core::AxisOrder::bhsd), tensor_spec("k", type, s),
                                 tensor_spec("v", type, s, core::AxisOrder::bhsd)}),
      comm);
  file.write({{"q", mine.data()}, {"k", mine.data()}, {"v", mine.data()}}, rows, owners);
  file.publish({});

  // The stored numbers, read by each rank as if the axes in the file had the order bshd.
  InspectedFile seen = test::inspected_file(comm, path, {"q", "k"});
  EXPECT_EQ(seen.at("q").extents, (std::vector<Index>{s.batch, s.heads, s.sequence, s.head_dim}));
  EXPECT_EQ(seen.at("k").extents, (std::vector<Index>{s.batch, s.sequence, s.heads, s.head_dim}));
  std::vector<T> stored(q.size());
  read_rows(seen, {"q", stored.data()}, {{0, s.heads}});
  EXPECT_EQ(stored, transposed(q, s.batch, s.sequence, s.heads));

  // Each rank reads its own rows, and rows that other ranks have written, first by byte offsets, then by HDF5.
  seen.datasets["q"].order = core::AxisOrder::bhsd;
  for (const Index offset : {DatasetInfo::not_known, DatasetInfo::by_hdf5}) {
    seen.datasets["q"].offset = offset;
    std::vector<T> found(mine.size());
    read_rows(seen, {"q", found.data()}, rows);
    EXPECT_EQ(found, mine);
    const Interval some{s.sequence / 3, s.sequence};
    std::vector<T> others(std::size_t(s.batch * some.size() * row));
    read_rows(seen, {"q", others.data()}, {some});
    EXPECT_EQ(others, rows_of(q, s.batch, row, {some}));
  }
  comm.barrier();  // all ranks have read the file before another file gets its name
}

TEST_F(AxesTest, GoesOutAndComesBackInEveryTypeAndCut) {
  for (const Shape& s : {Shape{2, 23, 3, 3, 5}, Shape{1, 7, 11, 11, 1}, Shape{3, 1, 2, 2, 4}, Shape{1, 64, 1, 1, 8}}) {
    for (const Index block : {s.sequence, Index(1), Index(4)}) {
      SCOPED_TRACE(fmt::format("{} rows, {} heads, blocks of {}", s.sequence, s.heads, block));
      const std::vector<Interval> rows = dealt(s.sequence, block);
      const RowOwners owners(dealt_to_all(s.sequence, block));
      expect_round_trip<float>(comm, path, DType::float32, s, rows, owners);
      if (s.sequence != 23) continue;  // the other types with one shape only
      expect_round_trip<double>(comm, path, DType::float64, s, rows, owners);
      expect_round_trip<std::uint16_t>(comm, path, DType::float16, s, rows, owners);
      expect_round_trip<std::uint16_t>(comm, path, DType::bfloat16, s, rows, owners);
    }
  }
}

TEST_F(AxesTest, LseHasNoLastAxis) {
  const Shape s{2, 13, 3, 3, 5};
  const auto all = counting<float>(2 * 13 * 3);
  const std::vector<Interval> rows = dealt(13, 2);
  const std::vector<float> mine = rows_of(all, 2, 3, rows);
  OutputFile file(output_plan({path, false}, {tensor_spec("lse", DType::float32, s, core::AxisOrder::bhsd)}), comm);
  file.write({{"lse", mine.data()}}, rows, RowOwners(dealt_to_all(13, 2)));
  file.publish({});
  InspectedFile seen = test::inspected_file(comm, path, {"lse"});
  EXPECT_EQ(seen.at("lse").extents, (std::vector<Index>{2, 3, 13}));
  std::vector<float> stored(all.size()), found(mine.size());
  read_rows(seen, {"lse", stored.data()}, {{0, 3}});
  EXPECT_EQ(stored, transposed(all, 2, 13, 3));
  seen.datasets["lse"].order = core::AxisOrder::bhsd;
  read_rows(seen, {"lse", found.data()}, rows, Wanted::any_numbers);
  EXPECT_EQ(found, mine);
}

TEST_F(AxesTest, RowNumbersAreWhole) {
  const Shape s{2, 13, 3, 3, 5};
  constexpr Index far = (Index(1) << 53) + 1;  // odd, so no double has this value
  auto all = counting<Index>(2 * 13 * 3 * 4);
  for (Index& number : all) number = number % 5 == 0 ? -1 : far + 2 * number;
  const std::vector<Interval> rows = dealt(13, 2);
  const std::vector<Index> mine = rows_of(all, 2, 3 * 4, rows);
  for (const core::AxisOrder order : {core::AxisOrder::bshd, core::AxisOrder::bhsd}) {
    OutputFile file(output_plan({path, true}, {tensor_spec("top_rows", NumberType::int64(), s, order, 0, 4)}), comm);
    file.write({{"top_rows", mine.data()}}, rows, RowOwners(dealt_to_all(13, 2)));
    file.publish({});
    InspectedFile seen = test::inspected_file(comm, path, {"top_rows"});
    EXPECT_EQ(seen.at("top_rows").type, NumberType::int64());
    EXPECT_EQ(seen.at("top_rows").extents,
              (order == core::AxisOrder::bshd ? std::vector<Index>{2, 13, 3, 4} : std::vector<Index>{2, 3, 13, 4}));
    seen.datasets["top_rows"].order = order;
    std::vector<Index> found(mine.size());
    read_rows(seen, {"top_rows", found.data()}, rows, Wanted::any_numbers);
    EXPECT_EQ(found, mine);
    comm.barrier();  // all ranks have read the file before another file gets its name
  }
}

/// The tensor has 40 MiB, more than the buffer through which rows are written and read.
TEST_F(AxesTest, LargeTensorsGoThroughASmallBuffer) {
  const Shape s{1, 2048, 5, 5, 1024};
  std::vector<float> all = counting<float>(std::size_t(s.sequence * s.heads * s.head_dim));
  OutputFile file(output_plan({path, false}, {tensor_spec("q", DType::float32, s, core::AxisOrder::bhsd)}), comm);
  const pattern::Partition rows = pattern::contiguous_partition(s.sequence, comm.size());
  const std::vector<Interval>& mine = rows[std::size_t(comm.rank())].intervals();
  file.write({{"q", all.data() + mine[0].begin * s.heads * s.head_dim}}, mine, RowOwners(rows));
  file.publish({});
  InspectedFile seen = test::inspected_file(comm, path, {"q"});
  seen.datasets["q"].order = core::AxisOrder::bhsd;
  std::vector<float> found(all.size());
  read_rows(seen, {"q", found.data()}, {{0, s.sequence}}, Wanted::any_numbers);
  EXPECT_TRUE(found == all);
}

TEST_F(AxesTest, ANumberThatIsNoneIsNamedByItsPlaceInTheFile) {
  std::vector<float> v(2 * 3 * 9 * 5, 1.0f);
  v[((1 * 3 + 2) * 9 + 7) * 5 + 4] = std::numeric_limits<float>::quiet_NaN();
  test::on_root(comm, [&] {
    for (const char* name : {"q", "k"}) add_dataset(path, name, H5T_IEEE_F32LE, {2, 3, 9, 5});
    add_dataset(path, "bad", H5T_IEEE_F32LE, {2, 3, 9, 5}, v.data());
  });
  runfile::InputSettings settings = settings_for(path);
  settings.axes = core::AxisOrder::bhsd;
  settings.v = "bad";
  const InputFile file = tensor_file(settings, comm);
  const std::vector<Interval> rows = dealt(9, 1);
  std::vector<float> mine(9 * 2 * 3 * 5);
  EXPECT_EQ(common_error(comm,
                         [&] {
                           file.read({{"bad", mine.data()}}, rows, comm);
                         }),
            path + ": dataset bad holds nan at [1, 2, 7, 4], expected finite numbers");
}

}  // namespace
}  // namespace annulus::store
