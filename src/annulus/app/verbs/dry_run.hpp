// `annulus run --dry-run`: everything checked, nothing computed.
#pragma once

#include "annulus/app/job/job.hpp"

namespace annulus::app {

/// Prints the resolved settings and, for each pass and rank of the job's partition, rows, work, memory and bytes on the
/// wire. Returns 0.
int dry_run(const Job& job, const comm::Communicator& comm);

}  // namespace annulus::app
