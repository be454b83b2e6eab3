// What `auto` takes, and why.
#pragma once

#include "annulus/planner/cost.hpp"

namespace annulus::planner {

/// One line of a plan: a strategy and a partition, with its cost; no cost where no closed form is known.
struct Candidate {
  const Strategy* strategy = nullptr;
  std::optional<pattern::PartitionKind> partition;  ///< empty where the strategy decides for itself
  std::optional<Cost> cost;                         ///< of both passes where the problem asks for gradients
  std::optional<Cost> backward;                     ///< of these, the backward pass
};

/// A decision with the table it was made from.
struct Choice {
  std::vector<Candidate> candidates;  ///< in the order of the registry
  std::size_t taken = 0;              ///< of candidates
  std::string reason;                 ///< one line for the user

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

/// The cheapest of these candidates of the problem that fits into the machine's memory per rank; candidates within 5 %
/// count as equal: then fewer bytes on the wire decide.
Choice choose_among(std::vector<Candidate> candidates, const Problem& problem, const core::Machine& machine);

/// Below `local_below` rows (empty: the costs decide) and on one rank `single`, if it fits; else choose_among()
/// all candidates.
/// A pure function: all ranks that ask with the same arguments get the same answer.
Choice choose(const Problem& problem, int ranks, std::optional<Index> local_below, const core::Machine& machine);

}  // namespace annulus::planner
