// Between plan and message: how cargo is collected from a block.
#pragma once

#include "annulus/kernels/gather.hpp"
#include "annulus/strategies/computation.hpp"

namespace annulus::strategies {

/// Bytes of K and V of a cargo, all batch entries.
Index cargo_bytes(const Problem& problem, const pattern::Cargo& cargo);

/// Copies that collect `cargo` from `source`, in rows of one head (D numbers), in the order of KeyRows::packed(cargo).
/// Throws when the source lacks a row.
std::vector<kernels::RowCopy> collect(const Problem& problem, const KeyBlock& source, const pattern::Cargo& cargo);

}  // namespace annulus::strategies
