// Recomputes rows of out, lse and entropy by the definition, in float64.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "annulus/kernels/reference.hpp"
#include "annulus/verify/input.hpp"

namespace annulus::verify {

/// A recomputed row of one head in one batch entry; x is its row number in q.
struct QueryRow {
  Index b, x, h;
  WantedRows keys;  ///< the keys that the row sees
  Numbers q;        ///< (D)
  Numbers out;      ///< (Dv)
  double lse = 0;
  double entropy = 0;
};

/// Recomputes `rows` (ascending) in all heads and batch entries. Local.
std::vector<QueryRow> recompute_rows(const VerifyInput& input, const std::vector<Index>& rows,
                                     const ShareShown& shown = {});

/// Reads k and v chunk by chunk, and calls visit(i, p, k, v) once for every rows[i] and every key p that this row sees.
/// k (D) and v (Dv) are the vectors of the key/value head that belongs to the row's head. Local.
void for_each_key(
    const VerifyInput& input, const std::vector<QueryRow>& rows,
    const std::function<void(std::size_t, Index, std::span<const double>, std::span<const double>)>& visit,
    const ShareShown& shown = {});

/// P of key row p for row `query` of q, in head h. `lse` is the query's LSE; `q` and `k` are the two rows' vectors (D).
/// docs/semantics.md defines P and the score.
struct Probability {
  double p;      ///< P; 0 if the query does not see the key
  double slope;  ///< derivative of the score with respect to scale * q.k
};
Probability probability(const VerifyInput& input, Index h, Index query, Index p, std::span<const double> q,
                        std::span<const double> k, double lse);

/// Estimates from a query's LSE how large the scores of its keys are: the LSE is at most about ln S above the largest
/// score. The result is this size times the weight that all these keys have together. The rest of the weight belongs to
/// the sink. The sink adds nothing to `out`, because the sink's value is 0.
double score_size(const VerifyInput& input, Index h, double lse);

/// The errors of a result's datasets, by the datasets' names.
using Deviations = std::map<std::string, Deviation>;

/// Compares recomputed rows with a tensor of the result, (B, S, heads, D) or (B, S, heads). Callers should compare all
/// heads and entries of one row before the next row, because only one row is kept in memory.
class RowCheck {
 public:
  RowCheck(const VerifyInput& input, const ResultRows& result, core::StoredTensor tensor, Deviations& all);

  /// `expected`: the recomputed numbers of one head of a row. `scores`: see Deviation. `squares`, if not empty: for
  /// each number the sum of the squares of its terms.
  void compare(Index b, Index x, Index h, std::span<const double> expected, double scores = 0,
               std::span<const double> squares = {});

 private:
  const VerifyInput& input_;
  const core::StoredTensorEntry& tensor_;
  RowReader rows_;
  Deviation& deviation_;
};

/// Compares rows of out and lse, and of entropy if the result has it.
void compare_forward(const VerifyInput& input, const ResultRows& result, const std::vector<QueryRow>& rows,
                     bool has_entropy, Deviations& all);

}  // namespace annulus::verify
