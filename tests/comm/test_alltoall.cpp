// All-to-all exchanges that turn a matrix stored by rows into one stored by columns, and back; some ranks have uneven,
// empty or several intervals. Numbers encode their part, row and column.
#include <gtest/gtest.h>

#include "annulus/comm/alltoall.hpp"
#include "annulus/core/buffer.hpp"

namespace annulus::comm {
namespace {

constexpr Index unit = Index(sizeof(double));

/// What global row `row`, column `column` of part `part` holds.
double stamp(Index part, Index row, Index column) { return double(part) * 1e6 + double(row) * 1e3 + double(column); }

/// A (parts, rows, width) array of doubles in the execution space's memory.
struct Array {
  Array(Index array_parts, Index array_rows, Index array_width)
      : parts(array_parts), rows(array_rows), width(array_width), memory("test", parts * rows * width * unit) {
    fill(std::vector<double>(std::size_t(parts * rows * width), -1.0));
  }
  void fill(const std::vector<double>& values) { core::copy_to_device(memory.data(), values.data(), memory.bytes()); }
  std::vector<double> values() const {
    std::vector<double> all(std::size_t(parts * rows * width));
    core::copy_to_host(all.data(), memory.data(), memory.bytes());
    return all;
  }
  RowBlock block() const { return {memory.data(), parts, rows, width * unit, {}}; }

  Index parts, rows, width;
  core::Buffer memory;
};

/// How a (parts, n, width) matrix is spread over ranks. By rows: rank p has all columns of the rows rows[p]. By
/// columns: rank p has the columns columns[p] of all rows.
struct Matrix {
  Index parts = 1;
  Index n = 0;
  Index width = 0;
  std::vector<std::vector<core::Interval>> rows;
  std::vector<core::Interval> columns;

  Index rows_of(int p) const { return Piece{rows[std::size_t(p)], {}}.row_count(); }
  Array by_rows(int p, bool filled) const {
    Array array(parts, rows_of(p), width);
    std::vector<double> values;
    for (Index part = 0; part < parts; ++part) {
      for (const core::Interval interval : rows[std::size_t(p)]) {
        for (Index r = interval.begin; r < interval.end; ++r) {
          for (Index c = 0; c < width; ++c) values.push_back(stamp(part, r, c));
        }
      }
    }
    if (filled) array.fill(values);
    return array;
  }
  Array by_columns(int p, bool filled) const {
    const core::Interval own = columns[std::size_t(p)];
    Array array(parts, n, own.size());
    std::vector<double> values;
    for (Index part = 0; part < parts; ++part) {
      for (Index r = 0; r < n; ++r) {
        for (Index c = own.begin; c < own.end; ++c) values.push_back(stamp(part, r, c));
      }
    }
    if (filled) array.fill(values);
    return array;
  }
};

/// Exchanges the matrix from by rows to by columns, and from by columns to by rows; checks both results.
void there_and_back(const Communicator& comm, const Matrix& matrix) {
  const int me = comm.rank();
  std::vector<Piece> of_rows, of_columns;  // of the array by rows, of the array by columns
  for (int p = 0; p < comm.size(); ++p) {
    const core::Interval columns = matrix.columns[std::size_t(p)];
    of_rows.push_back({{{0, matrix.rows_of(me)}}, {columns.begin * unit, columns.end * unit}});
    of_columns.push_back({matrix.rows[std::size_t(p)], {0, matrix.columns[std::size_t(me)].size() * unit}});
  }
  const Array columns = matrix.by_columns(me, false);
  alltoall_pieces(comm, matrix.by_rows(me, true).block(), of_rows, columns.block(), of_columns);
  EXPECT_EQ(columns.values(), matrix.by_columns(me, true).values());

  const Array rows = matrix.by_rows(me, false);
  alltoall_pieces(comm, matrix.by_columns(me, true).block(), of_columns, rows.block(), of_rows);
  EXPECT_EQ(rows.values(), matrix.by_rows(me, true).values());
}

TEST(Alltoall, TurnsRowsIntoColumnsAndBack) {
  const Communicator comm(MPI_COMM_WORLD);
  Matrix matrix{3, 0, 0, {}, {}};
  for (Index p = 0; p < comm.size(); ++p) {  // rank p has p + 1 rows and 2 p + 1 columns
    matrix.rows.push_back({{matrix.n, matrix.n + p + 1}});
    matrix.columns.push_back({matrix.width, matrix.width + 2 * p + 1});
    matrix.n += p + 1;
    matrix.width += 2 * p + 1;
  }
  there_and_back(comm, matrix);
}

TEST(Alltoall, TakesRanksWithoutRowsOrColumns) {
  const Communicator comm(MPI_COMM_WORLD);
  Matrix matrix{2, 0, 0, {}, {}};
  for (Index p = 0; p < comm.size(); ++p) {  // even ranks have rows, the first and last rank have columns
    const Index rows = p % 2 == 0 ? 3 : 0, width = p == 0 || p == comm.size() - 1 ? 2 : 0;
    matrix.rows.push_back(rows > 0 ? std::vector<core::Interval>{{matrix.n, matrix.n + rows}}
                                   : std::vector<core::Interval>{});
    matrix.columns.push_back({matrix.width, matrix.width + width});
    matrix.n += rows;
    matrix.width += width;
  }
  there_and_back(comm, matrix);
}

TEST(Alltoall, PutsSeveralIntervalsOfARankInOrder) {
  const Communicator comm(MPI_COMM_WORLD);
  const Index p = comm.size();
  Matrix matrix{2, 0, 3 * p, std::vector<std::vector<core::Interval>>(std::size_t(p)), {}};
  for (Index block = 0; block < 3 * p; ++block) {  // blocks of 1, 2, 3, 1, ... rows, for one rank after another
    const Index rows = 1 + block % 3;
    matrix.rows[std::size_t(block % p)].push_back({matrix.n, matrix.n + rows});
    matrix.n += rows;
  }
  for (Index r = 0; r < p; ++r) matrix.columns.push_back({3 * r, 3 * r + 3});
  there_and_back(comm, matrix);
}

TEST(Alltoall, GivesTheSameColumnsToSeveralRanks) {
  const Communicator comm(MPI_COMM_WORLD);
  Matrix matrix{1, 2 * comm.size(), 3, {}, {}};
  for (Index p = 0; p < comm.size(); ++p) {
    matrix.rows.push_back({{2 * p, 2 * p + 2}});
    matrix.columns.push_back({1, 3});
  }
  const int me = comm.rank();
  const Array columns = matrix.by_columns(me, false);
  std::vector<Piece> sends, receives;
  for (const auto& rows : matrix.rows) {
    sends.push_back({{{0, 2}}, {unit, 3 * unit}});
    receives.push_back({rows, {0, 2 * unit}});
  }
  alltoall_pieces(comm, matrix.by_rows(me, true).block(), sends, columns.block(), receives);
  EXPECT_EQ(columns.values(), matrix.by_columns(me, true).values());
}

TEST(Alltoall, LeavesOtherPlacesAlone) {
  const Communicator comm(MPI_COMM_WORLD);
  const Index p = comm.size();
  Array from(1, 1, 2), to(1, 2 * p, 2);
  from.fill({10.0 * comm.rank(), 10.0 * comm.rank() + 1});
  std::vector<Piece> sends, receives;
  for (Index r = 0; r < p; ++r) {
    sends.push_back({{{0, 1}}, {unit, 2 * unit}});  // the second number goes to the first column of every second row
    receives.push_back({{{2 * r, 2 * r + 1}}, {0, unit}});
  }
  alltoall_pieces(comm, from.block(), sends, to.block(), receives);
  for (Index r = 0; r < 2 * p; ++r) {
    EXPECT_EQ(to.values()[std::size_t(2 * r)], r % 2 == 0 ? 10.0 * double(r / 2) + 1 : -1.0);
    EXPECT_EQ(to.values()[std::size_t(2 * r + 1)], -1.0);
  }
}

}  // namespace
}  // namespace annulus::comm
