// Rows of dq, dk, dv and received by the definition, in float64.
//
// dq of a row needs that row's lse and delta alone. dk and dv of a key need those of every query that sees it, received
// (the sum of their probabilities) needs their lse, and each of these queries needs all of its own keys. That cost is
// bounded: where the queries that see the sampled keys look at up to largest_recomputed keys on a rank, they are
// recomputed, too; beyond, their lse and out are taken from the result, whose sampled rows have been held against the
// definition. (A dense row's key is seen by every row: n^2 for one key.)
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "annulus/verify/forward.hpp"

namespace annulus::verify {

/// (query row, head, key) triples of a rank, batch entries included: some seconds.
inline constexpr Index largest_recomputed = Index(1) << 26;

/// True when the queries that see keys `rows` can be recomputed. On this rank alone.
bool can_recompute_viewers(const VerifyInput& input, const std::vector<Index>& rows);

/// out (B, rows, H, D) and lse (B, rows, H).
struct RowResults {
  Numbers out, lse;
};
using ResultsOf = std::function<RowResults(Interval rows)>;
/// What recomputed queries tell of a chunk of rows; zeros of the others.
RowResults results_of(const VerifyInput& input, const std::vector<QueryRow>& queries, Interval rows);
/// By the definition. On this rank alone.
RowResults recompute_results(const VerifyInput& input, Interval rows);

/// A vector (D) of sums, and of the squares of their terms, added up: the root of these is the size of the terms, which
/// are rounded each on its own. In the gradients of a layer's weights they may cancel: verify_layer() looks at both.
struct Sums {
  Numbers values, squares;

  explicit Sums(std::size_t count) : values(count), squares(count) {}
  /// Adds factor * x, made of terms of this size times x.
  void add(double factor, double size, std::span<const double> x);
};

/// dq (D) of every recomputed row. On this rank alone.
std::vector<Sums> recompute_dq(const VerifyInput& input, const std::vector<QueryRow>& rows);

/// One row of one key/value head of one batch entry.
struct KeyRow {
  Index b, p, head;
  std::vector<WantedRows> viewers;  ///< queries that see it, of each query head of this head
  Numbers k, v;                     ///< (D)
  Sums dk, dv;
  Numbers received;  ///< (query heads of this head)
};

/// dk, dv and received of rows `keys` (ascending), all batch entries and heads of each; `results` tells of the queries
/// that see them, `chunk_rows` rows at a time at most. On this rank alone.
std::vector<KeyRow> recompute_keys(const VerifyInput& input, const std::vector<Index>& keys, const ResultsOf& results,
                                   Index chunk_rows, const ShareShown& shown = {});

/// Queries whose results are recomputed at a time.
inline constexpr Index recomputed_rows = 256;

/// Rows of dq of a result against the definition, for recomputed query rows. On this rank alone.
Deviation compare_dq(const VerifyInput& input, const ResultRows& result, const std::vector<QueryRow>& queries);

/// dsink of a result against the sum by the definition over all rows, whose lse and out are the result's: it is of all
/// rows, so that no part of them can tell. Collective.
Deviation compare_dsink(const VerifyInput& input, const ResultRows& result, const std::vector<double>& found,
                        const comm::Communicator& comm);

/// Where lse and out of the queries that see a key come from; nowhere: what these sum up is not looked at.
enum class Viewers { recomputed, from_result, nowhere };

/// What of a key's sums a result has.
struct KeySums {
  bool gradients = false;  ///< dk and dv
  bool received = false;
};
struct KeyDeviations {
  Deviation dk, dv, received;
};

/// The same of rows `keys` of dk, dv and received.
KeyDeviations compare_keys(const VerifyInput& input, const ResultRows& result, const std::vector<Index>& keys,
                           KeySums sums, Viewers viewers, const ShareShown& shown = {});

}  // namespace annulus::verify
