// Rows of entropy, top_rows and top_weights of a result against the definition, in float64. received is looked at with
// the gradients (gradients.hpp): it needs the same queries as dk and dv.
#pragma once

#include <vector>

#include "annulus/verify/forward.hpp"

namespace annulus::verify {

/// Its error is that of a difference of two numbers as large as lse: it is measured against the largest |lse|.
Deviation compare_entropy(const VerifyInput& input, const ResultRows& result, const std::vector<QueryRow>& rows);

/// The k rows p of largest P(x, p) of every query row and what P is.
struct TopDeviations {
  /// What the lists leave out: how much larger P of an unlisted row is than the last listed weight. Infinite where a
  /// list cannot be right (it names a row twice or one that the query does not see, its ties do not ascend, a row
  /// follows an empty entry) or ends before keys whose P is a number of the type of computation.
  Deviation rows;
  /// How far the listed weights are from P of their rows, and a weight from the one before it where it is larger.
  Deviation weights;
};
TopDeviations compare_top(const VerifyInput& input, const ResultRows& result, const std::vector<QueryRow>& rows,
                          Index top_keys);

}  // namespace annulus::verify
