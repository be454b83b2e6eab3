// The functions that make the registry's entries, one file each, and small functions that these files share.
#pragma once

#include "annulus/strategies/strategy.hpp"

namespace annulus::strategies {

StrategyEntry single();
StrategyEntry allgather();
StrategyEntry allgather_overlap();
StrategyEntry ring_blocking();
StrategyEntry ring();
StrategyEntry rotation();
StrategyEntry ring_bidirectional();
StrategyEntry onesided();
StrategyEntry ulysses();
StrategyEntry hybrid();
StrategyEntry pass_q();
StrategyEntry stream();

// Each says why a problem is not reproducible; empty: it is.
inline std::string always_reproducible(const Problem&, int) { return ""; }
/// Keys that come rank after rank are in order if every document's rows follow one another from rank to rank.
inline std::string unless_contiguous(const Problem& problem, int ranks) { return why_out_of_order(problem, ranks); }
/// The same where keys come part after part: a rank may have an early part and a late one.
inline std::string unless_parts(const Problem& problem, int ranks) { return why_no_ordered_parts(problem, ranks); }

}  // namespace annulus::strategies
