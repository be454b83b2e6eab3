// Rows of dq, dk and dv by the definition, in float64.
//
// dq of a row needs that row's lse and delta alone. dk and dv of a key need those of every query that sees it, and each
// of these needs all of its own keys. That cost is bounded: where the queries that see the sampled keys look at up to
// largest_recomputed keys on a rank, they are recomputed, too; beyond, their lse and out are taken from the result,
// whose sampled rows have been held against the definition. (A dense row's key is seen by every row: n^2 for one key.)
#pragma once

#include <string>
#include <vector>

#include "annulus/app/verify_forward.hpp"

namespace annulus::app {

/// (query row, head, key) triples of a rank, batch entries included: some seconds.
inline constexpr Index largest_recomputed = Index(1) << 26;

/// True when the queries that see keys `rows` can be recomputed. On this rank alone.
bool can_recompute_viewers(const VerifyInput& input, const kernels::ReferencePattern& pattern,
                           const std::vector<Index>& rows);

struct GradientDeviations {
  Deviation dq, dk, dv;
};

/// Rows of dq in `file` against the definition, for recomputed query rows; rows `keys` of dk and dv, with the queries
/// that see them recomputed or taken from the result. On this rank alone.
GradientDeviations compare_gradients(const VerifyInput& input, const kernels::ReferencePattern& pattern,
                                     const std::string& file, const std::vector<QueryRow>& queries,
                                     const std::vector<Index>& keys, bool recompute_viewers);

}  // namespace annulus::app
