// Rows of K and V as MPI sees them.
#pragma once

#include <vector>

#include "annulus/comm/communicator.hpp"

namespace annulus::comm {

/// Rows [rows.begin, rows.end) of every part of an array (parts, held, row_bytes) in the default execution space's
/// memory. K and V of a rank are one such array: parts = 2 B (K of every batch entry, then V), held = stored rows,
/// row_bytes = Hkv * D numbers. So one message carries K and V of all batch entries.
struct RowBlock {
  void* data = nullptr;
  Index parts = 0;
  Index held = 0;
  Index row_bytes = 0;
  core::Interval rows;

  Index bytes() const { return parts * rows.size() * row_bytes; }
};

/// An MPI datatype freed at the end of its scope.
class Datatype {
 public:
  /// `bytes` contiguous bytes: counts of it stay below 2^31 where counts of bytes would not.
  static Datatype contiguous(Index bytes);
  /// The rows of a block, relative to the address of its first selected row.
  static Datatype rows(const RowBlock& block);
  /// Bytes `columns` of some rows of every part of an array, relative to the array's address; its selected rows are not
  /// looked at.
  static Datatype columns(const RowBlock& array, const std::vector<core::Interval>& rows, core::Interval columns);
  ~Datatype();
  Datatype(Datatype&& other) noexcept;
  Datatype& operator=(Datatype&&) = delete;

  MPI_Datatype handle() const { return type_; }

 private:
  explicit Datatype(MPI_Datatype type) : type_(type) {}
  /// A type, not yet committed, that MPI call `call` makes.
  template <class Make>
  static Datatype made(const char* call, Make&& make) {
    MPI_Datatype type = MPI_DATATYPE_NULL;
    check_mpi(make(&type), call);
    return Datatype(type);
  }
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

}  // namespace annulus::comm
