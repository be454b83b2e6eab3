// `annulus verify`: recomputes sampled rows of a result by the definition, in float64.
#pragma once

#include <string>
#include <vector>

#include "annulus/comm/communicator.hpp"
#include "annulus/core/types.hpp"

namespace annulus::app {

struct VerifyOptions {
  std::string run_file;
  std::vector<std::string> overrides;  ///< as of `run`: a result made with --set is verified with the same --set
  core::Index rows = 64;               ///< rows to check, all heads and batch entries of each
};

/// Looks at out and lse of sampled query rows, and with compute.backward at dq of these and dk, dv of the same rows as
/// keys. Prints a table on rank 0; returns 0, or 3 when outside the tolerance. Collective.
int verify(const VerifyOptions& options, const comm::Communicator& comm);

}  // namespace annulus::app
