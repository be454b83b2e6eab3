// The one backward loop: whatever brings the keys, and wherever the sums of their gradients go.
#pragma once

#include "annulus/strategies/gradients/gradient_sink.hpp"

namespace annulus::strategies {

/// Adds to `computation` what all keys and this rank's queries give each other; collective. `make_results` is called
/// when its own sums are complete, before ranks part.
void run_backward(const BackwardPass& pass, const Setting& setting, BackwardComputation& computation,
                  const std::function<void()>& make_results);

}  // namespace annulus::strategies
