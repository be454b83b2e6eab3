// Rows of out, lse and entropy by the definition, in float64.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "annulus/kernels/reference.hpp"
#include "annulus/verify/input.hpp"

namespace annulus::verify {

/// One row of one head of one batch entry, recomputed; x is the row's number in q.
struct QueryRow {
  Index b, x, h;
  WantedRows keys;  ///< that it sees
  Numbers q;        ///< (D)
  Numbers out;      ///< (D)
  double lse = 0;
  double entropy = 0;
};

/// Recomputes these rows (ascending), all heads and batch entries of each. On this rank alone.
std::vector<QueryRow> recompute_rows(const VerifyInput& input, const std::vector<Index>& rows,
                                     const ShareShown& shown = {});

/// Shows every row its keys, each once, in stretches of rows of k and v: visit(i, p, k, v) for row i and key p, with
/// the vectors (D) of the row's key/value head. On this rank alone.
void for_each_key(
    const VerifyInput& input, const std::vector<QueryRow>& rows,
    const std::function<void(std::size_t, Index, std::span<const double>, std::span<const double>)>& visit,
    const ShareShown& shown = {});

/// P of a query, by its number in q, of head h with lse, and key row p: 0 where it does not see it; and the derivative
/// of the score by scale * q.k.
struct Probability {
  double p;
  double slope;
};
Probability probability(const VerifyInput& input, Index h, Index query, Index p, std::span<const double> q,
                        std::span<const double> k, double lse);

/// Vectors (D) of recomputed rows against a (B, S, heads, D) tensor of the result; rows ascend.
class VectorCheck {
 public:
  VectorCheck(const VerifyInput& input, const ResultRows& result, const std::string& dataset, Index heads)
      : input_(input), rows_(result, dataset), heads_(heads) {}

  void compare(Index b, Index x, Index h, const Numbers& expected);

  Deviation deviation;

 private:
  const VerifyInput& input_;
  RowReader rows_;
  Index heads_;
};

/// Rows of out and lse of a result against recomputed ones.
struct ForwardDeviations {
  Deviation out, lse;
};
ForwardDeviations compare_forward(const VerifyInput& input, const ResultRows& result,
                                  const std::vector<QueryRow>& rows);

}  // namespace annulus::verify
