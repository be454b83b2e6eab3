// What slices of a problem need of a rank's memory.
#pragma once

#include "annulus/planner/choose.hpp"

namespace annulus::planner {

/// Peak bytes of tensors and buffers of the fullest rank, in whichever slice and pass that is.
///   alone  a slice's tensors are read when they are needed
///   ahead  all that a slice reads is there from its beginning, and what the next one reads comes beside it
struct SliceMemory {
  double alone = 0;
  double ahead = 0;
};

/// Up to largest_enumerated ranks what every rank predicts for every slice, which is what the memory ledger will count;
/// beyond, the closed forms of a slice, which are no less.
SliceMemory slice_memory(const Strategy& strategy, const Problem& problem, const pattern::Partition& partition,
                         const strategies::SliceSize& size, const core::Machine& machine);

}  // namespace annulus::planner
