#include "annulus/comm/row_block.hpp"

#include <limits>
#include <utility>

namespace annulus::comm {
namespace {

int as_int(Index value, const char* what) {
  core::require(value >= 0 && value <= std::numeric_limits<int>::max(),
                [&] { return fmt::format("{} = {} does not fit an MPI count", what, value); });
  return int(value);
}

}  // namespace

Datatype Datatype::committed() && {
  check_mpi(MPI_Type_commit(&type_), "MPI_Type_commit");
  return std::move(*this);
}

Datatype Datatype::contiguous(Index bytes, MPI_Datatype number) {
  int size = 1;
  check_mpi(MPI_Type_size(number, &size), "MPI_Type_size");
  return made("MPI_Type_contiguous", MPI_Type_contiguous, as_int(bytes / size, "numbers of a row"), number).committed();
}

Datatype Datatype::rows(const RowBlock& block, MPI_Datatype number) {
  const Datatype row = contiguous(block.row_bytes, number);
  return made("MPI_Type_create_hvector", MPI_Type_create_hvector, as_int(block.parts, "parts"),
              as_int(block.rows.size(), "rows"), MPI_Aint(block.held * block.row_bytes), row.handle())
      .committed();
}

Datatype Datatype::runs(const std::vector<RowRun>& runs, Index parts, Index held, Index row_bytes,
                        MPI_Datatype number) {
  const Datatype row = contiguous(row_bytes, number);
  std::vector<Datatype> pieces;  // one type per run, alive until the type of all runs is made
  std::vector<MPI_Datatype> handles;
  std::vector<MPI_Aint> starts;
  for (const RowRun& run : runs) {
    pieces.push_back(made("MPI_Type_create_hvector", MPI_Type_create_hvector, as_int(run.count, "rows"), 1,
                          MPI_Aint(run.stride * row_bytes), row.handle()));
    handles.push_back(pieces.back().handle());
    starts.push_back(MPI_Aint(run.from * row_bytes));
  }
  const std::vector<int> ones(runs.size(), 1);
  const Datatype part = made("MPI_Type_create_struct", MPI_Type_create_struct, as_int(Index(runs.size()), "runs"),
                             ones.data(), starts.data(), handles.data());
  return made("MPI_Type_create_hvector", MPI_Type_create_hvector, as_int(parts, "parts"), 1, MPI_Aint(held * row_bytes),
              part.handle())
      .committed();
}

Datatype Datatype::columns(const RowBlock& array, const std::vector<core::Interval>& rows, core::Interval columns) {
  // Builds the type in steps: the chosen bytes of a row, after which the next row begins row_bytes later; then the
  // intervals of rows; then the parts.
  const Datatype bytes = contiguous(columns.size());
  const Datatype row =
      made("MPI_Type_create_resized", MPI_Type_create_resized, bytes.handle(), MPI_Aint(0), MPI_Aint(array.row_bytes));
  std::vector<int> counts;
  std::vector<MPI_Aint> begins;
  for (const core::Interval& interval : rows) {
    counts.push_back(as_int(interval.size(), "rows"));
    begins.push_back(MPI_Aint(interval.begin * array.row_bytes + columns.begin));
  }
  const Datatype part = made("MPI_Type_create_hindexed", MPI_Type_create_hindexed,
                             as_int(Index(rows.size()), "intervals"), counts.data(), begins.data(), row.handle());
  return made("MPI_Type_create_hvector", MPI_Type_create_hvector, as_int(array.parts, "parts"), 1,
              MPI_Aint(array.held * array.row_bytes), part.handle())
      .committed();
}

Index Datatype::bytes() const {
  MPI_Count bytes = 0;
  check_mpi(MPI_Type_size_x(type_, &bytes), "MPI_Type_size_x");
  return Index(bytes);
}

Datatype::~Datatype() {
  if (type_ != MPI_DATATYPE_NULL) MPI_Type_free(&type_);
}

Datatype::Datatype(Datatype&& other) noexcept : type_(std::exchange(other.type_, MPI_DATATYPE_NULL)) {}

}  // namespace annulus::comm
