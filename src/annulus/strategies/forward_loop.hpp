// The one forward loop: whatever brings the keys, the kernel adds them to a running softmax, step after step.
#pragma once

#include "annulus/strategies/keys/key_source.hpp"

namespace annulus::strategies {

/// Makes out and lse of this rank's rows; collective.
core::RankMetrics run_forward(const ForwardPass& pass, const Problem& problem, const pattern::Partition& partition,
                              const comm::Communicator& comm, Tensors& tensors, const Progress& progress);

}  // namespace annulus::strategies
