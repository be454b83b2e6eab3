// Recomputes rows of dq, dk, dv and received by the definition, in float64.
//
// dq of a row needs only this row's lse and delta = dout.out - dlse. dk and dv of a key need lse and delta of every
// query that sees the key; received (the sum of P over these queries) needs only their lse. lse and out of a query can
// be recomputed only from all keys that the query sees. In dense attention all n queries see the key, so one key takes
// n^2 pairs. Each rank counts the keys that its queries see. If no rank counts more than largest_recomputed, lse and
// out of all these queries are recomputed. Otherwise verify_attention() reads lse and out from the result file, if
// there is one, although only sampled rows of that file were compared with the definition.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "annulus/verify/forward.hpp"

namespace annulus::verify {

/// Limit for the (query row, head, key) triples of a rank, summed over batch entries: some seconds of work.
inline constexpr Index largest_recomputed = Index(1) << 26;

/// True if this rank can recompute all queries that see the keys `rows` within this limit. Local.
bool can_recompute_viewers(const VerifyInput& input, const std::vector<Index>& rows);

/// Results of rows: out (B, rows, H, Dv) and lse (B, rows, H).
struct RowResults {
  Numbers out, lse;
};
using ResultsOf = std::function<RowResults(Interval rows)>;
/// Returns the results of a chunk of rows: those of the recomputed `queries`, and zeros for all other rows.
RowResults results_of(const VerifyInput& input, const std::vector<QueryRow>& queries, Interval rows);
/// Recomputes the rows by the definition. Local.
RowResults recompute_results(const VerifyInput& input, Interval rows);

/// Sums of vectors, and sums of the squares of the terms. The root of a sum of squares says how large the terms are,
/// and so how large their rounding errors are, even if large terms cancel. Terms of dq and dk cancel if one key has
/// nearly all the weight.
struct Sums {
  Numbers values, squares;

  explicit Sums(std::size_t count) : values(count), squares(count) {}
  /// Adds factor * x. `factor` is itself a sum; `size` says how large its terms are.
  void add(double factor, double size, std::span<const double> x);
};

/// Computes dq (D) for every recomputed row. Local.
std::vector<Sums> recompute_dq(const VerifyInput& input, const std::vector<QueryRow>& rows);

/// Row p of one key/value head, which a group of query heads shares, in batch entry b.
struct KeyRow {
  Index b, p, head;
  std::vector<WantedRows> viewers;  ///< for each query head of the group: the queries that see p
  Numbers k, v;                     ///< (D), (Dv)
  Sums dk, dv;
  Numbers received;   ///< the sum of P for each query head of the group
  double scores = 0;  ///< largest score_size() of the queries that give p weight
};

/// Computes dk, dv and received of the rows `keys` (ascending) in all batch entries and heads. `results` returns lse
/// and out of the queries that see these keys, for at most `chunk_rows` rows in one call. Local.
std::vector<KeyRow> recompute_keys(const VerifyInput& input, const std::vector<Index>& keys, const ResultsOf& results,
                                   Index chunk_rows, const ShareShown& shown = {});

/// Number of queries that are recomputed at once.
inline constexpr Index recomputed_rows = 256;

/// Compares rows of dq in a result with the definition, for recomputed query rows. Local.
void compare_dq(const VerifyInput& input, const ResultRows& result, const std::vector<QueryRow>& queries,
                Deviations& all);

/// Compares `found`, dsink (H) of a result, with the definition's sum over all rows. Takes lse and out of these rows
/// from the result, because to recompute all rows is too much work. Collective.
Deviation compare_dsink(const VerifyInput& input, const ResultRows& result, const std::vector<double>& found,
                        const comm::Communicator& comm);

/// Says which sums over queries a result contains.
struct KeySums {
  bool gradients = false;  ///< dk and dv
  bool received = false;
};
/// Compares the rows `keys` of dk, dv and received with the definition. lse and out of the queries that see a key are
/// recomputed if `recompute` is true, and otherwise taken from the result. Local.
void compare_keys(const VerifyInput& input, const ResultRows& result, const std::vector<Index>& keys, KeySums sums,
                  bool recompute, Deviations& all, const ShareShown& shown = {});

}  // namespace annulus::verify
