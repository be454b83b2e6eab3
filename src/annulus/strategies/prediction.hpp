// The predicted cost of a pass for one rank.
#pragma once

#include "annulus/core/types.hpp"

namespace annulus::strategies {

using core::Index;

struct Prediction {
  Index memory_bytes = 0;  ///< peak of tensors and buffers, as the memory ledger counts them
  Index bytes_sent = 0;
  Index bytes_received = 0;
  core::Count kept = 0;  ///< kept (query, key, head) triples, batch entries included
};

}  // namespace annulus::strategies
