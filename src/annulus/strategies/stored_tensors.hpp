// What a stored tensor (core/row_store.hpp) has for each row of a problem.
#pragma once

#include "annulus/core/row_store.hpp"
#include "annulus/strategies/problem.hpp"

namespace annulus::strategies {

/// Sq or S.
Index rows_of(const Problem& problem, core::StoredTensor tensor);
/// Rows of queries as they are numbered in a tensor of queries alone. Worked example: queries at rows [8, 12) of the
/// sequence, a rank that has rows [10, 12) of them: rows [2, 4) of q.
pattern::StoredRows in_tensor(const Problem& problem, const pattern::StoredRows& queries);
/// H or Hkv.
Index heads_of(const Problem& problem, core::StoredTensor tensor);
/// Numbers of a head.
Index head_numbers_of(const Problem& problem, core::StoredTensor tensor);
/// Bytes of a number in memory.
Index number_bytes_of(const Problem& problem, core::StoredTensor tensor);
/// Type of the numbers in memory; nothing where they are int64.
std::optional<core::DType> memory_type_of(const Problem& problem, core::StoredTensor tensor);

}  // namespace annulus::strategies
