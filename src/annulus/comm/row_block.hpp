// Rows of an array, for example of K and V, as MPI sees them.
#pragma once

#include <cstddef>
#include <vector>

#include "annulus/comm/communicator.hpp"

namespace annulus::comm {

/// Rows [rows.begin, rows.end) of every part of an array in the memory of the default execution space, or of the host
/// (Staged::block()). The array has `parts` parts of `held` rows of `row_bytes` bytes. For example, K and V of a rank
/// are one such array. If rows of K and V are equally long (D = Dv), parts is 2 B (K of every batch entry, then V),
/// held is the number of the rank's rows, and row_bytes is the size of Hkv * D numbers. So one message carries K and V
/// of all batch entries.
struct RowBlock {
  void* data = nullptr;
  Index parts = 0;
  Index held = 0;
  Index row_bytes = 0;
  core::Interval rows;

  Index bytes() const { return parts * rows.size() * row_bytes; }
  /// Address of the first selected row.
  void* first_row() const { return static_cast<std::byte*>(data) + rows.begin * row_bytes; }
};

/// The rows `from`, from + stride, from + 2 * stride, ... of an array, `count` rows in all.
struct RowRun {
  Index from = 0;
  Index stride = 1;
  Index count = 0;
};

/// An MPI datatype; the destructor frees it.
class Datatype {
 public:
  /// `bytes` contiguous bytes, as elements of type `number`. Only the number of elements must fit an int.
  static Datatype contiguous(Index bytes, MPI_Datatype number = MPI_BYTE);
  /// The rows of a block, relative to the address of its first selected row.
  static Datatype rows(const RowBlock& block, MPI_Datatype number = MPI_BYTE);
  /// The rows of all runs, run after run, in every part of an array (parts, held, row_bytes), relative to the array's
  /// address. Worked example: runs {0, 2, 3} and {7, 1, 2} of (2, 10, 1): bytes 0 2 4 7 8, then 10 12 14 17 18.
  static Datatype runs(const std::vector<RowRun>& runs, Index parts, Index held, Index row_bytes,
                       MPI_Datatype number = MPI_BYTE);
  /// The bytes `columns` of the rows in the intervals `rows`, in every part of the array, relative to the array's
  /// address. Order: part by part, in each part interval by interval. array.rows has no effect.
  static Datatype columns(const RowBlock& array, const std::vector<core::Interval>& rows, core::Interval columns);
  ~Datatype();
  Datatype(Datatype&& other) noexcept;
  Datatype& operator=(Datatype&&) = delete;

  MPI_Datatype handle() const { return type_; }
  /// Bytes of data in one element of this type, gaps not counted.
  Index bytes() const;

 private:
  explicit Datatype(MPI_Datatype type) : type_(type) {}
  /// Makes a type by MPI's function `call`. Until committed() is called, the type can only be a component of other
  /// types.
  template <class Call, class... Arguments>
  static Datatype made(const char* name, Call* call, Arguments... arguments) {
    Datatype made(MPI_DATATYPE_NULL);
    check_mpi(call(arguments..., &made.type_), name);
    return made;
  }
  /// Makes the type ready for use in messages.
  Datatype committed() &&;
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

}  // namespace annulus::comm
