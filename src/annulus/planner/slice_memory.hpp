// Predicts how much memory a rank needs for slices of a problem.
#pragma once

#include "annulus/planner/choose.hpp"

namespace annulus::planner {

/// Peak bytes of tensors and buffers on the rank that needs most, over all slices (strategies/slices.hpp) and passes.
///   alone  a slice's tensors are read when they are needed
///   ahead  all inputs of a slice are in memory when it begins; while it runs, the inputs of the next slice are read
struct SliceMemory {
  double alone = 0;
  double ahead = 0;
};

/// For at most largest_enumerated ranks, returns the largest prediction for any rank and any slice; this is what the
/// memory ledger will count. For more ranks, returns the upper bound that the closed forms give for largest_slice().
SliceMemory slice_memory(const Strategy& strategy, const Problem& problem, const pattern::Partition& partition,
                         const strategies::SliceSize& size, const core::Machine& machine);

}  // namespace annulus::planner
