// Returns how many rows, heads and numbers each stored tensor (core/row_store.hpp) of a problem has, and their type.
#pragma once

#include "annulus/core/row_store.hpp"
#include "annulus/strategies/problem.hpp"

namespace annulus::strategies {

/// Number of rows of a tensor: Sq or S.
Index rows_of(const Problem& problem, core::StoredTensor tensor);
/// Converts rows of the sequence, which are queries, to rows of a tensor that has only queries. Worked example: the
/// queries are the rows [8, 12) of the sequence, and a rank has the queries [10, 12): in q these are the rows [2, 4).
pattern::StoredRows in_tensor(const Problem& problem, const pattern::StoredRows& queries);
/// Number of heads: H or Hkv.
Index heads_of(const Problem& problem, core::StoredTensor tensor);
/// Numbers in a row of one head.
Index head_numbers_of(const Problem& problem, core::StoredTensor tensor);
/// Bytes of one number in memory.
Index number_bytes_of(const Problem& problem, core::StoredTensor tensor);
/// Type of the numbers in memory; empty for int64.
std::optional<core::DType> memory_type_of(const Problem& problem, core::StoredTensor tensor);

}  // namespace annulus::strategies
