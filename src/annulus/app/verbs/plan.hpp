// `annulus plan`: what every strategy would cost at any number of ranks, and what `auto` would take.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "annulus/comm/communicator.hpp"

namespace annulus::app {

struct PlanOptions {
  std::string run_file;
  std::vector<std::string> overrides;
  int ranks = 0;                         ///< 0: as many as were launched
  std::optional<std::string> machine;    ///< machine file
  std::optional<std::string> calibrate;  ///< machine file to make; then nothing is planned
  bool overwrite = false;                ///< an existing machine file is replaced
};

/// Prints the table, or measures this machine. Collective; returns the exit status, throws core::Error.
int plan(const PlanOptions& options, const comm::Communicator& comm);

}  // namespace annulus::app
