// What `auto` takes, and why.
#pragma once

#include "annulus/planner/cost.hpp"
#include "annulus/strategies/slices.hpp"

namespace annulus::planner {

/// A problem in slices, one after another: seconds, bytes and messages of all, memory of the largest.
struct SlicedCost {
  strategies::SliceSize size;
  Index slices = 1;
  Cost cost;
};

/// One line of a plan: a strategy and a partition, with its cost; no cost where no closed form is known.
struct Candidate {
  const Strategy* strategy = nullptr;
  std::optional<pattern::PartitionKind> partition;  ///< empty where the strategy decides for itself
  std::optional<Cost> cost;                         ///< of both passes where the problem asks for gradients
  std::optional<Cost> backward;                     ///< of these, the backward pass
  std::optional<SlicedCost> sliced{};               ///< where it fits into memory in slices only
};

/// A decision with the table it was made from.
struct Choice {
  std::vector<Candidate> candidates;  ///< in the order of the registry
  std::size_t taken = 0;              ///< of candidates
  std::string reason;                 ///< one line for the user
  bool fits = true;                   ///< what is taken, at once or in slices

  const Strategy& strategy() const { return *candidates[taken].strategy; }
  std::optional<pattern::PartitionKind> partition() const { return candidates[taken].partition; }
};

/// "ring, zigzag".
std::string name_of(const Candidate& candidate);

/// Every strategy x partition at `ranks` ranks that can do what the problem asks for (why_not_reproducible()); the
/// problem's own partition alone where it names one.
std::vector<Candidate> candidates(const Problem& problem, int ranks, const core::Machine& machine);

/// What a strategy will cost with a partition that it has made; nothing where no closed form is known. Of both passes
/// where the problem asks for gradients.
std::optional<Cost> predict(const Strategy& strategy, const Problem& problem, const pattern::Partition& partition,
                            const core::Machine& machine);

/// The cheapest of these candidates of the problem that fits into the machine's memory per rank at once, else the
/// cheapest that fits in slices; candidates within 5 % count as equal: then fewer bytes on the wire decide. The
/// smallest where nothing fits.
Choice choose_among(std::vector<Candidate> candidates, const Problem& problem, const core::Machine& machine);

/// The fewest slices in which a candidate that has a cost, but does not fit, fits; nothing where there are none.
std::optional<SlicedCost> cut_to_fit(const Candidate& candidate, const Problem& problem, int ranks,
                                     const core::Machine& machine);

/// Below `local_below` rows (empty: the costs decide) and on one rank `single`, if it fits; else choose_among()
/// all candidates.
/// A pure function: all ranks that ask with the same arguments get the same answer.
Choice choose(const Problem& problem, int ranks, std::optional<Index> local_below, const core::Machine& machine);

}  // namespace annulus::planner
