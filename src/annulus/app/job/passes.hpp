// The passes of which a run of attention is made.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "annulus/app/job/job.hpp"

namespace annulus::app {

/// In the order in which a run makes them.
enum class PassKind { forward, statistics, backward };

constexpr std::string_view name_of(PassKind pass) {
  return pass == PassKind::forward ? "forward" : pass == PassKind::statistics ? "statistics" : "backward";
}

/// Those that the problem asks for.
std::vector<PassKind> passes_of(const strategies::Problem& problem);

/// What the pass is for every rank of the job.
std::unique_ptr<const strategies::Schedule> schedule_of(const Job& job, PassKind pass);

/// Flops of a pass that keeps `kept` (query, key, head) triples. The statistics' pass makes q.k alone, half of a
/// forward pass.
inline double flops_of(PassKind pass, double kept, const core::Shape& shape) {
  if (pass == PassKind::backward) return core::backward_flops(kept, shape);
  return pass == PassKind::statistics ? core::forward_flops(kept, shape.head_dim) / 2
                                      : core::forward_flops(kept, shape);
}

}  // namespace annulus::app
