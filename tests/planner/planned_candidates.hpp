// Finds a candidate by its strategy and partition.
#pragma once

#include <stdexcept>

#include "annulus/planner/choose.hpp"

namespace annulus::planner {

inline const Candidate& candidate(
    const std::vector<Candidate>& all, std::string_view strategy,
    std::optional<pattern::PartitionKind> partition = pattern::PartitionKind::contiguous) {
  for (const Candidate& one : all) {
    if (one.strategy->name() == strategy && one.partition == partition) return one;
  }
  throw std::runtime_error("no such candidate: " + std::string(strategy));
}

}  // namespace annulus::planner
