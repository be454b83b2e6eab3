// Says how to collect packed rows, which are the rows that a plan lists, from a block into a message.
#pragma once

#include "annulus/kernels/gather.hpp"
#include "annulus/strategies/computation.hpp"

namespace annulus::strategies {

/// Bytes of K and V of packed rows, in all batch entries.
Index packed_bytes(const Problem& problem, const pattern::PackedRows& packed);

/// Returns the copies that collect `packed` from `source`, in the order of KeyRows::packed(packed), counted in rows of
/// one head. Throws if the source lacks a row.
std::vector<kernels::RowCopy> collect(const Problem& problem, const KeyBlock& source,
                                      const pattern::PackedRows& packed);

}  // namespace annulus::strategies
