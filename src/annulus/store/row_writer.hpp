// Where all ranks together write what they have computed: a file that is being made (output_file.hpp), or memory in
// tests.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "annulus/store/matrix_part.hpp"
#include "annulus/store/shared_blocks.hpp"

namespace annulus::store {

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
