// What a stored tensor (core/row_store.hpp) has for each row of a problem.
#pragma once

#include "annulus/core/row_store.hpp"
#include "annulus/strategies/problem.hpp"

namespace annulus::strategies {

/// H or Hkv.
Index heads_of(const Problem& problem, core::StoredTensor tensor);
/// Numbers of a head.
Index head_numbers_of(const Problem& problem, core::StoredTensor tensor);
/// Bytes of a number in memory.
Index number_bytes_of(const Problem& problem, core::StoredTensor tensor);
/// Type of the numbers in memory; nothing where they are int64.
std::optional<core::DType> memory_type_of(const Problem& problem, core::StoredTensor tensor);

}  // namespace annulus::strategies
