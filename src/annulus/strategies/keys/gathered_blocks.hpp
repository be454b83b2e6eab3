// K and V of all ranks on every rank, each rank's rows a block of their own.
#pragma once

#include "annulus/strategies/computation.hpp"

namespace annulus::strategies {

/// Where each rank's rows lie: the own ones in tensors.kv, the others in `gathered`, rank after rank, each a (2, B,
/// rows, Hkv, D) array.
std::vector<KeyBlock> gathered_blocks(const Problem& problem, const pattern::Partition& partition, int rank,
                                      const Tensors& tensors, const core::Buffer& gathered);

/// The same blocks as comm::Gather wants them.
std::vector<comm::RowBlock> gathered_messages(const Problem& problem, const std::vector<KeyBlock>& blocks);

/// All of them in one block: rank after rank, each with its rows in the order in which it holds them.
pattern::KeyRows gathered_rows(const pattern::Partition& partition);

}  // namespace annulus::strategies
