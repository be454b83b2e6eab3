// Chooses strategy and partition for `auto`, and says why.
#pragma once

#include <map>

#include "annulus/planner/cost.hpp"
#include "annulus/planner/rank_counts.hpp"
#include "annulus/strategies/slices.hpp"

namespace annulus::planner {

/// The cost of a problem that is cut into slices (strategies/slices.hpp), which are computed one after another. Times,
/// bytes and messages are added up over all slices; memory is the memory of the largest slice.
struct SlicedCost {
  strategies::SliceSize size;
  Index slices = 1;
  Cost cost;
};

/// One line of a plan: a strategy, a partition and what they cost. `cost` is empty if no cost can be predicted.
struct Candidate {
  const Strategy* strategy = nullptr;
  std::optional<pattern::PartitionKind> partition;  ///< empty if the strategy has a partition of its own
  std::optional<Cost> cost;                         ///< of all passes that the problem asks for
  std::optional<Cost> backward;                     ///< the part of `cost` that belongs to the backward pass
  std::optional<SlicedCost> sliced{};               ///< set if the candidate fits only in slices
  std::optional<double> least_bytes{};              ///< memory of its smallest slices, if counted exactly
};

/// A decision, with the candidates among which it was made.
struct Choice {
  std::vector<Candidate> candidates;  ///< in the order of the registry; offer_stream() adds `stream` last
  std::size_t taken = 0;              ///< index of the chosen candidate
  std::string reason;                 ///< one line for the user
  bool fits = true;                   ///< whether the chosen candidate fits, at once or in slices
  double least_bytes = 0;             ///< memory of the chosen candidate if none fits

  const Strategy& strategy() const { return *candidates[taken].strategy; }
  std::optional<pattern::PartitionKind> partition() const { return candidates[taken].partition; }
};

/// Returns the candidate's strategy and partition, for example "ring, zigzag".
std::string name_of(const Candidate& candidate);

/// Returns the pairs of a strategy and a partition that can solve the problem on `ranks` ranks; for a reproducible
/// problem, only pairs that keep its bits (see why_not_reproducible()). If the problem names its partition, returns
/// only pairs with that partition, and strategies with a partition of their own; otherwise only pairs with a partition
/// that is_compared() accepts.
std::vector<Candidate> candidates(const Problem& problem, int ranks, const core::Machine& machine);

/// Predicts the cost of a strategy with a partition that this strategy has made; empty if no cost can be predicted.
/// Counts all passes that the problem asks for.
std::optional<Cost> predict(const Strategy& strategy, const Problem& problem, const pattern::Partition& partition,
                            const core::Machine& machine);

/// Chooses the fastest candidate that fits into the machine's memory per rank at once. If no candidate fits at once,
/// chooses the fastest that fits in slices. If no candidate fits in slices, either, chooses the candidate that needs
/// the least memory. Candidates that are at most 5 % slower than the fastest count as equally fast; of these, the one
/// that moves the fewest bytes is chosen. `in_slices_on`: the number of ranks if the caller can compute in slices,
/// otherwise empty. With slices, the least memory of a candidate is the memory of its smallest slices.
Choice choose_among(std::vector<Candidate> candidates, const Problem& problem, const core::Machine& machine,
                    std::optional<int> in_slices_on = {});

/// Returns the slice whose heads read the most rows. Slices of one size differ only with semantics `grouped`, in which
/// each head uses one pair. Worked example: segments [64, all], 4 heads, slices of 1 head: heads 2 and 3 use the pair
/// `all`, so the slice of head 2 is returned.
Problem largest_slice(const Problem& whole, const strategies::SliceSize& size);

/// Counts of a problem's slices with one partition, by the slice's first query head and its number of K/V heads. The
/// batch does not matter. Candidates with the same partition use the same object, because counting takes most of the
/// time of a search.
using SliceCounts = std::map<std::pair<Index, Index>, Counted>;

/// Finds the cut into the fewest slices that fit and, for a reproducible problem, keep the bits of results. Empty if
/// the candidate fits into memory at once or has no cost, or if there are no such slices. `exact`: counts memory as
/// slice_memory() does, which takes longer; otherwise by the closed forms, which are upper bounds, for largest_slice().
/// `known`: counts of slices with the candidate's partition; new counts are added.
std::optional<SlicedCost> cut_to_fit(const Candidate& candidate, const Problem& problem, int ranks,
                                     const core::Machine& machine, SliceCounts& known, bool exact = false);

/// Chooses `single` on one rank. Also chooses `single` for fewer than `local_below` rows, if `local_below` is not empty
/// and `single` fits. Otherwise calls choose_among() with all candidates. `in_slices`: true if the caller can compute
/// in slices. `rows_of_entry`: rows of one batch entry, if the sequence has all batch entries end to end
/// (input.lengths); otherwise 0. The result depends only on the arguments, so ranks with the same arguments agree.
Choice choose(const Problem& problem, int ranks, std::optional<Index> local_below, const core::Machine& machine,
              bool in_slices = true, Index rows_of_entry = 0);

}  // namespace annulus::planner
