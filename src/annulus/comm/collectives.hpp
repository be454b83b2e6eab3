// A collective operation on row blocks (row_block.hpp).
#pragma once

#include <vector>

#include "annulus/comm/row_block.hpp"

namespace annulus::comm {

/// Gathers every rank's rows on every rank; blocking and collective.
///   own   (parts, own rows, row_bytes), all rows selected
///   all   (parts, n, row_bytes); rank p's rows become rows owners[p] of every part
/// The intervals `owners` cover [0, n) without gaps, in the order of the ranks.
void allgather_rows(const Communicator& comm, const RowBlock& own, const RowBlock& all,
                    const std::vector<core::Interval>& owners);

}  // namespace annulus::comm
