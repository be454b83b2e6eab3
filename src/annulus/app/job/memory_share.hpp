// How much memory a rank may use on the available nodes.
#pragma once

#include <string>
#include <vector>

#include "annulus/comm/communicator.hpp"
#include "annulus/core/memory_bounds.hpp"

namespace annulus::app {

/// What a rank gets of the tightest bound that it knows, bounds being shared evenly by the ranks of a node that name
/// them alike.
struct MemoryShare {
  double bytes = 0;    ///< 0: nothing is known
  std::string source;  ///< for the user: "memory cgroup /job_7/step_0, shared by 2 ranks of n1"
};

/// The poorest rank's share, the same on every rank; collective.
MemoryShare memory_share(const comm::Communicator& comm);

/// Bounds that the batch system has set and may hold ranks to without a cgroup: Slurm's --mem (MiB, for all ranks of a
/// node) and --mem-per-cpu (for each CPU of a rank), less the `resident` bytes that the program itself has.
std::vector<core::MemoryBound> batch_bounds(core::Index resident);

/// What plans may take of a GPU's free bytes: a sixteenth, at most 512 MiB, is left for what they do not count, such as
/// partial states and work lists of kernels, their code, which is loaded when it is first launched, and what the driver
/// rounds up to whole pages of 2 MiB.
core::Index plannable_gpu_memory(core::Index free);

}  // namespace annulus::app
