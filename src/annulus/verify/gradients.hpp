// Recomputes rows of dq, dk, dv and received by the definition, in float64.
//
// dq of a row needs only that row's lse and delta. dk and dv of a key need lse and delta of every query that sees the
// key; received (the sum of their probabilities) needs their lse. To compute these, a query needs all of its own keys.
// (In dense attention every row sees the key, so one key costs n^2.) So the cost is limited. If these queries see at
// most largest_recomputed keys on a rank, they are recomputed, too. Otherwise their lse and out come from the result,
// whose sampled rows were compared.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "annulus/verify/forward.hpp"

namespace annulus::verify {

/// Limit for the (query row, head, key) triples of a rank, in all batch entries: some seconds.
inline constexpr Index largest_recomputed = Index(1) << 26;

/// Whether the queries that see the keys `rows` can be recomputed within this limit. Local.
bool can_recompute_viewers(const VerifyInput& input, const std::vector<Index>& rows);

/// Results of rows: out (B, rows, H, Dv) and lse (B, rows, H).
struct RowResults {
  Numbers out, lse;
};
using ResultsOf = std::function<RowResults(Interval rows)>;
/// Results of a chunk of rows: those of recomputed queries, and zeros for other rows.
RowResults results_of(const VerifyInput& input, const std::vector<QueryRow>& queries, Interval rows);
/// Recomputes the rows by the definition. Local.
RowResults recompute_results(const VerifyInput& input, Interval rows);

/// Sums of vectors, and sums of the squares of their terms. The root of the latter is the size of the terms, and so of
/// their rounding errors: in gradients of a layer's weights, large terms may cancel. verify_layer() uses both.
struct Sums {
  Numbers values, squares;

  explicit Sums(std::size_t count) : values(count), squares(count) {}
  /// Adds factor * x. `size`: size of the terms of which the factor is made.
  void add(double factor, double size, std::span<const double> x);
};

/// Computes dq (D) for every recomputed row. Local.
std::vector<Sums> recompute_dq(const VerifyInput& input, const std::vector<QueryRow>& rows);

/// A row of one key/value head in one batch entry.
struct KeyRow {
  Index b, p, head;
  std::vector<WantedRows> viewers;  ///< for each query head of this head: the queries that see it
  Numbers k, v;                     ///< (D), (Dv)
  Sums dk, dv;
  Numbers received;  ///< for each query head of this head
};

/// Computes dk, dv and received of the rows `keys` (ascending) in all batch entries and heads. `results` returns lse
/// and out of the queries that see them, for at most `chunk_rows` rows in one call. Local.
std::vector<KeyRow> recompute_keys(const VerifyInput& input, const std::vector<Index>& keys, const ResultsOf& results,
                                   Index chunk_rows, const ShareShown& shown = {});

/// Number of queries that are recomputed at once.
inline constexpr Index recomputed_rows = 256;

/// Compares rows of dq in a result with the definition, for recomputed query rows. Local.
void compare_dq(const VerifyInput& input, const ResultRows& result, const std::vector<QueryRow>& queries,
                Deviations& all);

/// Compares dsink of a result with the sum over all rows by the definition. It takes lse and out from the result,
/// because a sum over all rows cannot be checked on some of them. Collective.
Deviation compare_dsink(const VerifyInput& input, const ResultRows& result, const std::vector<double>& found,
                        const comm::Communicator& comm);

/// Which sums over queries a result contains.
struct KeySums {
  bool gradients = false;  ///< dk and dv
  bool received = false;
};
/// Compares the rows `keys` of dk, dv and received with the definition. lse and out of the queries that see a key are
/// recomputed, or taken from the result. Local.
void compare_keys(const VerifyInput& input, const ResultRows& result, const std::vector<Index>& keys, KeySums sums,
                  bool recompute, Deviations& all, const ShareShown& shown = {});

}  // namespace annulus::verify
