// Which strategy and partition `auto` chooses, and why.
#pragma once

#include "annulus/planner/cost.hpp"
#include "annulus/strategies/slices.hpp"

namespace annulus::planner {

/// A problem cut into slices that run one after another. In `cost`, times, bytes and messages are those of all slices
/// together, and memory is that of the largest slice.
struct SlicedCost {
  strategies::SliceSize size;
  Index slices = 1;
  Cost cost;
};

/// One line of a plan: a strategy and a partition, and what they cost; no cost if none can be predicted.
struct Candidate {
  const Strategy* strategy = nullptr;
  std::optional<pattern::PartitionKind> partition;  ///< empty if the strategy has a partition of its own
  std::optional<Cost> cost;                         ///< of both passes if the problem asks for gradients
  std::optional<Cost> backward;                     ///< the backward pass's part of `cost`
  std::optional<SlicedCost> sliced{};               ///< set if the candidate fits only in slices
};

/// A decision, with the candidates among which it was made.
struct Choice {
  std::vector<Candidate> candidates;  ///< in the order of the registry
  std::size_t taken = 0;              ///< index of the chosen candidate
  std::string reason;                 ///< one line for the user
  bool fits = true;                   ///< whether the chosen candidate fits, at once or in slices

  const Strategy& strategy() const { return *candidates[taken].strategy; }
  std::optional<pattern::PartitionKind> partition() const { return candidates[taken].partition; }
};

/// For example "ring, zigzag".
std::string name_of(const Candidate& candidate);

/// Every pair of a strategy and a partition that can solve the problem on `ranks` ranks. If the problem must be
/// reproducible, only pairs that are (see why_not_reproducible()). If the problem names its partition, only pairs with
/// that partition.
std::vector<Candidate> candidates(const Problem& problem, int ranks, const core::Machine& machine);

/// What a strategy will cost with this partition, which it has made; empty if no cost can be predicted. Counts both
/// passes if the problem asks for gradients.
std::optional<Cost> predict(const Strategy& strategy, const Problem& problem, const pattern::Partition& partition,
                            const core::Machine& machine);

/// Chooses the fastest of the candidates that fit into the machine's memory per rank at once; if there are none, the
/// fastest that fits in slices; if there is none, the one that needs the least memory. Times within 5 % count as equal:
/// then it chooses the candidate with the fewest bytes on the network.
Choice choose_among(std::vector<Candidate> candidates, const Problem& problem, const core::Machine& machine);

/// The cut into the fewest slices that fit; empty if the candidate fits at once, or if no slices fit and keep bits.
std::optional<SlicedCost> cut_to_fit(const Candidate& candidate, const Problem& problem, int ranks,
                                     const core::Machine& machine);

/// Chooses `single` on one rank, and for fewer than `local_below` rows if that is not empty and `single` fits. In other
/// cases calls choose_among() with all candidates. If the input has lengths, the sequence has all batch entries end to
/// end: then `rows_of_entry` says how many rows one entry has. `in_slices`: the caller can compute in slices.
/// A pure function: all ranks that call it with the same arguments get the same answer.
Choice choose(const Problem& problem, int ranks, std::optional<Index> local_below, const core::Machine& machine,
              bool in_slices = true, Index rows_of_entry = 0);

}  // namespace annulus::planner
