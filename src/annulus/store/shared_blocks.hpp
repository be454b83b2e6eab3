// Rows of all ranks written into one file, so that every block of the file is written by one rank only.
//
// Several machines may hold the same block of a file in caches that do not know of each other (NFS, FUSE with
// write-back, BeeGFS, DAOS mounts). What writes a few bytes of it then writes the whole block back, with bytes of its
// neighbour as they were before. So the file is cut into blocks of 64 KiB, larger than any page, and
//   - a block belongs to the rank that has the row of its first byte; other ranks send their bytes of it there;
//   - the first and the last block of a dataset, which hold bytes of something else, too, belong to rank 0;
//   - a dataset of less than 1 MiB for each rank belongs to rank 0 as a whole.
// Worked example, rows of 40 KiB from byte 0 on, two ranks with two rows each, a dataset that rank 0 does not get as a
// whole: rank 0 has bytes [0, 80 KiB), so the blocks at 0 and at 64 KiB; rank 1 sends it [80 KiB, 128 KiB), and writes
// [128 KiB, 160 KiB) if something of the dataset lies after that, else sends it, too.
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

/// Which rank has a number of the dataset: the same answer on every rank, for every number of it, whatever part of the
/// dataset is written now.
using RankOf = std::function<int(const OneNumber&)>;

/// The rank that has a row, by bisection.
class RowOwners {
 public:
  /// `entry_rows`: S where batch entries lie end to end, so that the partition is of B S rows; 0: each entry is spread
  /// alike.
  explicit RowOwners(const pattern::Partition& partition, Index entry_rows = 0);

  int rank_of(Index row) const;
  /// The same for write_together().
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

/// Writes each rank's pieces of one dataset, converted where the file has another type; collective. Throws the same
/// Error(failure) on every rank where a call fails or a number does not fit the file's type.
void write_together(const RawTensor& tensor, const std::vector<core::RowPiece>& pieces, const RankOf& rank_of,
                    const comm::Communicator& comm, core::RowTraffic& traffic);

// Where all ranks together write what they have computed: a file that is being made (output_file.hpp), or memory in
// tests.

/// Host memory with this rank's rows of a dataset, (batch, rows, heads, ...) contiguous.
struct RowsOut {
  std::string dataset;
  const void* host = nullptr;
  std::optional<NumberType> type{};       ///< of the numbers there; empty: the dataset's
  std::optional<core::Interval> batch{};  ///< entries that are there; empty: all
  std::optional<core::Interval> heads{};  ///< the same of heads
};

class RowWriter {
 public:
  virtual ~RowWriter() = default;

  /// Writes this rank's rows of several datasets (ascending disjoint intervals, none is allowed); collective: every
  /// rank names the same datasets. `owners` knows the rows of all ranks. Throws the same Error(failure) on every rank.
  virtual void write(const std::vector<RowsOut>& tensors, const std::vector<core::Interval>& rows,
                     const RowOwners& owners) = 0;
  /// Writes this rank's parts of matrices and vectors; collective: every rank names the same datasets, and each number
  /// is written by one rank, which `rank_of` knows: of a row and a column (OneNumber's head). Throws as write().
  virtual void write_parts(const std::vector<MatrixPart>& parts,
                           const std::function<RankOf(const std::string& dataset)>& rank_of) = 0;
};

}  // namespace annulus::store
