// The rows that `verify` looks at.
#pragma once

#include <vector>

#include "annulus/verify/input.hpp"

namespace annulus::verify {

/// Rows that are looked at, in ascending order: of q and what lies like it, and of k.
struct SampledRows {
  std::vector<Index> queries, keys;
};
/// `count` rows of each: first those next to which something changes (ends of the sequence, of documents, of segments),
/// which may take half of the places, then rows by a fixed seed. Where all rows are queries they are the same.
SampledRows sample_rows(const VerifyInput& input, Index count);

/// A rank's share of the rows: round-robin in small packs, because later causal rows see more keys.
std::vector<Index> own_share(const std::vector<Index>& rows, int rank, int ranks);

}  // namespace annulus::verify
