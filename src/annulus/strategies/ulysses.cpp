// ulysses: an all-to-all gives every rank all rows of its share of the heads, another one sends out and lse home. Two
// exchanges whatever P is, but no more ranks than heads have work.
#include "annulus/strategies/head_strategy.hpp"
#include "annulus/strategies/make.hpp"

namespace annulus::strategies {

std::unique_ptr<Strategy> make_ulysses() {
  return make_head_strategy("ulysses", "all-to-all: every rank computes all rows of its share of the heads",
                            [](const Problem&, int ranks) { return ranks; });
}

}  // namespace annulus::strategies
