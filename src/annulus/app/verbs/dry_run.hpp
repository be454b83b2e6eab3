// `annulus run --dry-run`: checks everything and computes nothing.
#pragma once

#include <optional>

#include "annulus/app/job/job.hpp"

namespace annulus::app {

/// Prints the resolved settings, then rows, work, memory and traffic of each rank in each pass. With `rank` it prints
/// that rank's schedule instead, step by step. Returns 0.
int dry_run(const Job& job, std::optional<int> rank, const comm::Communicator& comm);

}  // namespace annulus::app
