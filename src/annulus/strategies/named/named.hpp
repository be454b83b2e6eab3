// Declares the functions that describe the strategies, each in its own file, and small functions that they share.
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

// Each of these functions returns why a problem is not reproducible; empty if it is.
inline std::string always_reproducible(const Problem&, int) { return ""; }
/// For keys that come rank after rank: they are in order if every document's rows follow one another from rank to rank.
inline std::string unless_contiguous(const Problem& problem, int ranks) { return why_out_of_order(problem, ranks); }
/// For keys that come part after part (pattern/parts.hpp): a rank may have a part of early rows and one of late rows.
inline std::string unless_parts(const Problem& problem, int ranks) { return why_no_ordered_parts(problem, ranks); }

}  // namespace annulus::strategies
