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

Datatype Datatype::contiguous(Index bytes) {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  check_mpi(MPI_Type_contiguous(as_int(bytes, "bytes of a row"), MPI_BYTE, &type), "MPI_Type_contiguous");
  check_mpi(MPI_Type_commit(&type), "MPI_Type_commit");
  return Datatype(type);
}

Datatype Datatype::rows(const RowBlock& block) {
  const Datatype row = contiguous(block.row_bytes);
  MPI_Datatype type = MPI_DATATYPE_NULL;
  check_mpi(MPI_Type_create_hvector(as_int(block.parts, "parts"), as_int(block.rows.size(), "rows"),
                                    MPI_Aint(block.held * block.row_bytes), row.handle(), &type),
            "MPI_Type_create_hvector");
  check_mpi(MPI_Type_commit(&type), "MPI_Type_commit");
  return Datatype(type);
}

Datatype::~Datatype() {
  if (type_ != MPI_DATATYPE_NULL) MPI_Type_free(&type_);
}

Datatype::Datatype(Datatype&& other) noexcept : type_(std::exchange(other.type_, MPI_DATATYPE_NULL)) {}

}  // namespace annulus::comm
