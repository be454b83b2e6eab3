// Writes rows of all ranks to one file. Only one rank writes each block of the file.
//
// Several machines may cache the same block of a file without knowing of each other (NFS, FUSE with write-back, BeeGFS,
// DAOS mounts). A machine that changes some bytes of a block writes back the whole block. This would overwrite what
// other machines have written to that block. So the file is cut into blocks of 64 KiB, at least as large as any page:
// - the rank that has the row of a block's first byte writes the block; other ranks send that rank their bytes of it;
// - rank 0 writes the first and the last block of a dataset if these blocks also hold bytes outside the dataset;
// - rank 0 writes the whole dataset if the dataset has less than 1 MiB for each rank.
// Worked example: a large dataset begins at byte 0, and its rows have 40 KiB. Rank 0 has rows 0 and 1, which are bytes
// [0, 80 KiB), so it writes the blocks at 0 and 64 KiB. Rank 1 has rows 2 and 3, which are [80 KiB, 160 KiB). It sends
// [80 KiB, 128 KiB) to rank 0, and writes the block at 128 KiB. The rank with row 4 sends [160 KiB, 192 KiB) to rank 1.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "annulus/comm/communicator.hpp"
#include "annulus/pattern/partition.hpp"
#include "annulus/store/matrix_part.hpp"
#include "annulus/store/raw_file.hpp"

namespace annulus::store {

inline constexpr Index shared_block_bytes = Index(64) << 10;

/// A function that returns which rank has a number of the dataset. On every rank, it must return the same result. It
/// must know all numbers of the dataset, also those that are not written in this call.
using RankOf = std::function<int(const OneNumber&)>;

/// Finds the rank that has a row, by bisection.
class RowOwners {
 public:
  /// `entry_rows`: S if the partition divides B S rows, because batch entries lie end to end; 0 if it divides S rows,
  /// and is the same for every entry.
  explicit RowOwners(const pattern::Partition& partition, Index entry_rows = 0);

  int rank_of(Index row) const;
  /// rank_of() as a function for write_together().
  RankOf ranks() const {
    return [this](const OneNumber& at) { return rank_of(at.batch * entry_rows_ + at.row); };
  }

 private:
  struct Owned {
    Index begin;
    int rank;
  };
  std::vector<Owned> intervals_;  // ascending
  Index entry_rows_;
};

/// Writes each rank's pieces of one dataset, and converts them if the file has another type. Collective. Throws the
/// same Error(failure) on every rank if a call fails or a number does not fit the file's type.
void write_together(const RawTensor& tensor, const std::vector<core::RowPiece>& pieces, const RankOf& rank_of,
                    const comm::Communicator& comm, core::RowTraffic& traffic);

// All ranks together write results to a RowWriter: a file that is being made (output_file.hpp) or, in tests, memory.

/// Host memory with this rank's rows of a dataset, (batch, rows, heads, ...), contiguous.
struct RowsOut {
  std::string dataset;
  const void* host = nullptr;
  std::optional<NumberType> type{};       ///< type in memory; empty: the dataset's
  std::optional<core::Interval> batch{};  ///< entries in memory; empty: all
  std::optional<core::Interval> heads{};  ///< heads in memory; empty: all
};

class RowWriter {
 public:
  virtual ~RowWriter() = default;

  /// Writes this rank's `rows` (ascending, disjoint, possibly none) of several datasets. `owners` knows all ranks'
  /// rows. Collective: every rank names the same datasets. Throws the same Error(failure) on every rank.
  virtual void write(const std::vector<RowsOut>& tensors, const std::vector<core::Interval>& rows,
                     const RowOwners& owners) = 0;
  /// Writes this rank's parts of matrices and vectors. Collective: every rank names the same datasets. Each number is
  /// in one rank's part; rank_of(dataset) finds the rank by row and column (OneNumber::head). Throws the same errors as
  /// write().
  virtual void write_parts(const std::vector<MatrixPart>& parts,
                           const std::function<RankOf(const std::string& dataset)>& rank_of) = 0;
};

}  // namespace annulus::store
