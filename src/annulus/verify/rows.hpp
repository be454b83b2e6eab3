// The rows that `verify` looks at.
#pragma once

#include <vector>

#include "annulus/kernels/reference.hpp"
#include "annulus/verify/input.hpp"

namespace annulus::verify {

/// `count` rows in ascending order: first those next to which something changes (ends of the sequence, of documents,
/// of segments), which may take half of the places, then rows by a fixed seed.
std::vector<Index> sample_rows(const VerifyInput& input, Index count);

/// A rank's share of the rows: round-robin in small packs, because later causal rows see more keys.
std::vector<Index> own_share(const std::vector<Index>& rows, int rank, int ranks);

}  // namespace annulus::verify
