// `annulus run --dry-run`: everything checked, nothing computed.
#pragma once

#include <optional>

#include "annulus/app/job/job.hpp"

namespace annulus::app {

/// Prints the resolved settings and, for each pass and rank of the job's partition, rows, work, memory and bytes on the
/// wire; with `rank` instead that rank's schedule, step by step. Returns 0.
int dry_run(const Job& job, std::optional<int> rank, const comm::Communicator& comm);

}  // namespace annulus::app
