// Chooses the rows that `verify` checks.
#pragma once

#include <vector>

#include "annulus/verify/input.hpp"

namespace annulus::verify {

/// The chosen rows, ascending: rows of q (and of out, lse, dq), and rows of k.
struct SampledRows {
  std::vector<Index> queries, keys;
};
/// Chooses `count` queries and `count` keys. Up to half are rows at which something changes (ends of the sequence, of
/// documents, of segments); the others follow from a fixed seed. If all rows are queries, both lists are the same.
SampledRows sample_rows(const VerifyInput& input, Index count);

/// One rank's share of the rows. Ranks get small groups of rows in turn, because later causal rows see more keys.
std::vector<Index> own_share(const std::vector<Index>& rows, int rank, int ranks);

}  // namespace annulus::verify
