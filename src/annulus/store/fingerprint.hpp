// Fingerprints of 64 bits, which show whether numbers have changed since an earlier launch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "annulus/comm/communicator.hpp"
#include "annulus/core/types.hpp"
#include "annulus/store/matrix_part.hpp"

namespace annulus::store {

using core::Index;

/// The rows of a tensor (B, S, ...) that a rank holds, as a contiguous array (B, rows, ...). In the array, the rows of
/// one interval follow those of the interval before.
struct HeldRows {
  const void* host = nullptr;
  const std::vector<core::Interval>& rows;
  Index batch = 1;
  Index sequence = 0;
  Index row_bytes = 0;  ///< bytes of one row of one batch entry
};

/// The fingerprint of a tensor. It does not depend on the number of ranks or the partition. If a bit changes, or a row
/// moves or is missing, the fingerprint changes, too, except in one of 2^64 cases. The fingerprint does not protect
/// from an attacker. No row may be on two ranks. Collective.
std::uint64_t fingerprint(const HeldRows& held, const comm::Communicator& comm);

/// Returns the size of a file, and a fingerprint of 64 pieces of 4 KiB of the file: "12288 bytes, fingerprint 00c3...".
/// Two files of the same size that differ only outside these pieces get the same text. Throws Error(failure) if the
/// file cannot be read. Not collective.
std::string sample_of(const std::string& file);

/// The fingerprint of a list of numbers. Not collective.
std::uint64_t fingerprint(const std::vector<Index>& numbers);

/// Returns the sum of hash(word) * factor(position of the word) over the 8-byte words of `bytes`, which are `count`
/// bytes from byte `begin` of a file. Every `line` bytes form a line, `count` is a multiple of `line`, and no word
/// crosses the end of a line. If a file is cut between two lines, the sums of its pieces add up to the sum of the file.
/// A word of zeros adds 0.
std::uint64_t fingerprint_at(Index begin, const std::byte* bytes, Index count, Index line);

/// Returns what a part adds to the fingerprint of matrix number `matrix`. The sum over all parts does not depend on how
/// the matrix is cut into parts. MatrixPart::type must be set. Not collective.
std::uint64_t fingerprint_share(const MatrixPart& part, std::uint64_t matrix);

}  // namespace annulus::store
