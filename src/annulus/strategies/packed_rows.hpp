// From a plan to messages: how packed rows are collected from a block.
#pragma once

#include "annulus/kernels/gather.hpp"
#include "annulus/strategies/computation.hpp"

namespace annulus::strategies {

/// Bytes of K and V of packed rows, all batch entries.
Index packed_bytes(const Problem& problem, const pattern::PackedRows& packed);

/// The copies that collect `packed` from `source`, counted in rows of one head (D numbers), in the order of
/// KeyRows::packed(packed).
/// Throws if the source lacks a row.
std::vector<kernels::RowCopy> collect(const Problem& problem, const KeyBlock& source,
                                      const pattern::PackedRows& packed);

}  // namespace annulus::strategies
