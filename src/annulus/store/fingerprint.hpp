// Tells whether numbers are still those of another day, from 64 bits.
#pragma once

#include <cstdint>
#include <vector>

#include "annulus/comm/communicator.hpp"
#include "annulus/core/types.hpp"
#include "annulus/store/matrix_part.hpp"

namespace annulus::store {

using core::Index;

/// Rows that a rank holds of a tensor (B, S, ...): (B, rows, ...) contiguous, the rows of the intervals one after
/// another.
struct HeldRows {
  const void* host = nullptr;
  const std::vector<core::Interval>& rows;
  Index batch = 1;
  Index sequence = 0;
  Index row_bytes = 0;  ///< of one row of one batch entry
};

/// The same for any number of ranks and any cut of the rows; another one where a bit changes, a row moves or is
/// missing, but for one case in 2^64 (no protection from somebody who wants to deceive). Collective; every rank's rows
/// count once.
std::uint64_t fingerprint(const HeldRows& held, const comm::Communicator& comm);

/// The fingerprint of numbers that every rank holds.
std::uint64_t fingerprint(const std::vector<Index>& numbers);

/// A share of the fingerprint of a matrix with this number: the sum of the shares of parts that together are the matrix
/// is the same however it is cut. The part says its type. On this rank alone.
std::uint64_t fingerprint_share(const MatrixPart& part, std::uint64_t matrix);

}  // namespace annulus::store
