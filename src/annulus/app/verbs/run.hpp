// `annulus run`: the main job, and its dry run.
#pragma once

#include <string>
#include <vector>

#include "annulus/comm/communicator.hpp"

namespace annulus::app {

struct RunOptions {
  std::string run_file;
  std::vector<std::string> overrides;  ///< of --set
  bool dry_run = false;
  int ranks = 0;             ///< dry run: plan for so many ranks; 0: as launched
  std::string command_line;  ///< for /provenance
};

/// Reads q, k, v, computes out and lse (with compute.backward: from dout also dq, dk, dv), writes them, prints a
/// summary on rank 0. Returns the exit status. Collective.
int run(const RunOptions& options, const comm::Communicator& comm);

}  // namespace annulus::app
