// What the registry knows of each strategy's file.
#pragma once

#include "annulus/strategies/strategy.hpp"

namespace annulus::strategies {

std::unique_ptr<Strategy> make_single();
std::unique_ptr<Strategy> make_allgather();
std::unique_ptr<Strategy> make_allgather_overlap();
std::unique_ptr<Strategy> make_ring();
std::unique_ptr<Strategy> make_ring_blocking();
std::unique_ptr<Strategy> make_ring_bidirectional();
std::unique_ptr<Strategy> make_rotation();
std::unique_ptr<Strategy> make_onesided();
std::unique_ptr<Strategy> make_ulysses();
std::unique_ptr<Strategy> make_hybrid();

}  // namespace annulus::strategies
