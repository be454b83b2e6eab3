// What the registry knows of each strategy's file, and the words these files share.
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

// Why a problem is not reproducible.
inline std::string always_reproducible(const Problem&, int) { return ""; }
/// Keys that come rank after rank come in order where every document's rows follow one another from rank to rank.
inline std::string unless_contiguous(const Problem& problem, int ranks) { return why_out_of_order(problem, ranks); }
/// The same where they come part after part, of a rank that has an early part and a late one.
inline std::string unless_parts(const Problem& problem, int ranks) { return why_no_ordered_parts(problem, ranks); }

}  // namespace annulus::strategies
