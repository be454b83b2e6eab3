// Rows of all ranks written into one file: every number arrives, and every block of 64 KiB is written by one rank only.
// This program defines pwrite itself, and so records what this rank writes.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <map>

#include "annulus/store/output_file.hpp"
#include "annulus/store/row_reading.hpp"
#include "store/tensor_inputs.hpp"

namespace {

std::vector<annulus::core::Interval> written;  // byte ranges that this rank wrote
bool is_noting = false;

}  // namespace

extern "C" ssize_t pwrite(int file, const void* bytes, size_t count, off_t offset) {
  static const auto original =
      reinterpret_cast<ssize_t (*)(int, const void*, size_t, off_t)>(dlsym(RTLD_NEXT, "pwrite"));
  const ssize_t done = original(file, bytes, count, offset);
  if (is_noting && done > 0) written.push_back({offset, offset + done});
  return done;
}

namespace annulus::store {
namespace {

using core::DType;
using core::Interval;
using core::Shape;
using test::SharedFolder;

/// The largest number of ranks that have written into the same block; collective.
Index most_writers(const comm::Communicator& comm) {
  std::map<Index, int> writers;
  std::string blocks;
  std::map<Index, bool> mine;
  for (const Interval& bytes : written) {
    for (Index block = bytes.begin / shared_block_bytes; block * shared_block_bytes < bytes.end; ++block) {
      mine[block] = true;
    }
  }
  for (const auto& [block, yes] : mine) blocks += std::to_string(block) + " ";
  for (const std::string& text : comm.gather_all(blocks)) {
    std::istringstream words(text);
    for (Index block; words >> block;) ++writers[block];
  }
  Index most = 0;
  for (const auto& [block, ranks] : writers) most = std::max<Index>(most, ranks);
  return most;
}

struct Case {
  Shape shape;
  core::AxisOrder order;
  DType stored;
  Index slices;  // parts of the heads, written one after another
};

float number_of(Index i) { return float(i % 8191) + 0.25f; }

/// This rank's rows of some heads, (B, rows, heads, D).
std::vector<float> rows_of(const Shape& s, const std::vector<Interval>& rows, Interval heads) {
  std::vector<float> numbers;
  for (Index b = 0; b < s.batch; ++b) {
    for (const Interval& interval : rows) {
      for (Index row = interval.begin; row < interval.end; ++row) {
        for (Index h = heads.begin; h < heads.end; ++h) {
          for (Index d = 0; d < s.head_dim; ++d) {
            numbers.push_back(number_of(((b * s.sequence + row) * s.heads + h) * s.head_dim + d));
          }
        }
      }
    }
  }
  return numbers;
}

void expect_right(const comm::Communicator& comm, const std::string& path, const Case& one,
                  const pattern::Partition& partition) {
  const Shape& s = one.shape;
  const std::vector<Interval>& rows = partition[std::size_t(comm.rank())].intervals();
  OutputFile file(output_plan({path, true}, {tensor_spec("a", one.stored, s, one.order),
                                             tensor_spec("lse", core::lse_type(one.stored), s),
                                             tensor_spec("b", one.stored, s, one.order)}),
                  comm);
  const RowOwners owners(partition);
  written.clear();
  is_noting = true;
  for (Index i = 0; i < one.slices; ++i) {
    const Interval heads = core::even_part(s.heads, one.slices, i);
    const std::vector<float> mine = rows_of(s, rows, heads);
    for (const char* name : {"a", "b"}) file.write({{name, mine.data(), DType::float32, {}, heads}}, rows, owners);
  }
  is_noting = false;
  EXPECT_EQ(most_writers(comm), 1) << "ranks that wrote one block";
  file.publish({});
  InspectedFile seen = test::inspected_file(comm, path, {"a", "b"});
  const std::vector<float> expected = rows_of(s, {{0, s.sequence}}, {0, s.heads});
  for (const char* name : {"a", "b"}) {
    seen.datasets[name].order = one.order;
    if (one.stored == DType::float32) {
      std::vector<float> found(expected.size());
      read_rows(seen, {name, found.data()}, {{0, s.sequence}});
      EXPECT_TRUE(found == expected) << name;
    } else {
      std::vector<double> found(expected.size());
      read_rows(seen, {name, found.data()}, {{0, s.sequence}});
      EXPECT_TRUE(std::equal(found.begin(), found.end(), expected.begin())) << name;
    }
  }
  comm.barrier();  // all ranks have read the file before another file gets its name
}

TEST(SharedBlocks, EveryNumberArrivesAndEveryBlockHasOneWriter) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  const SharedFolder folder(comm);
  const Case cases[] = {
      {{1, 4099, 3, 3, 40}, core::AxisOrder::bshd, DType::float32, 1},  // rows of 480 bytes, 2 MB
      {{2, 8209, 2, 2, 65}, core::AxisOrder::bhsd, DType::float32, 1},  // 8.5 MB, four byte ranges per rank
      {{1, 16411, 4, 4, 32},
       core::AxisOrder::bshd,
       DType::float64,
       2},                                                          // 16.8 MB, stored as float64, two slices of heads
      {{3, 5, 2, 2, 8}, core::AxisOrder::bshd, DType::float32, 1},  // small: rank 0 writes all of it
      {{1, 300, 16, 16, 256}, core::AxisOrder::bshd, DType::float32, 1},  // rows of 16 KiB, 4.9 MB
  };
  for (const Case& one : cases) {
    const Index n = one.shape.sequence;
    const int ranks = comm.size();
    for (const pattern::Partition& partition :
         {pattern::contiguous_partition(n, ranks), pattern::zigzag_partition({0, n / 3, n}, ranks),
          pattern::block_cyclic_partition(n, ranks, 7), pattern::root_partition(n, ranks)}) {
      SCOPED_TRACE(fmt::format("{} rows, {} heads, {} slices", n, one.shape.heads, one.slices));
      expect_right(comm, folder / "out.h5", one, partition);
    }
  }
}

TEST(SharedBlocks, LargeDatasetsAreWrittenByAllRanks) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  const SharedFolder folder(comm);
  const Case one{
      {1, 65536, 1, 1, 64}, core::AxisOrder::bshd, DType::float32, 1};  // 16 MiB, begins at a multiple of 1 MiB
  const pattern::Partition partition = pattern::contiguous_partition(one.shape.sequence, comm.size());
  expect_right(comm, folder / "out.h5", one, partition);
  Index bytes = 0;
  for (const Interval& stretch : written) bytes += stretch.size();
  EXPECT_GT(bytes, Index(2 * 16 << 20) / comm.size() - 4 * shared_block_bytes) << "this rank's share of both tensors";
}

TEST(RowOwners, FindTheRankOfARow) {
  const RowOwners owners({pattern::StoredRows({{0, 2}, {10, 12}}), pattern::StoredRows(std::vector<Interval>{}),
                          pattern::StoredRows({{2, 10}})});
  const int expected[] = {0, 0, 2, 2, 2, 2, 2, 2, 2, 2, 0, 0};
  for (Index row = 0; row < 12; ++row) EXPECT_EQ(owners.rank_of(row), expected[row]) << row;
}

}  // namespace
}  // namespace annulus::store
