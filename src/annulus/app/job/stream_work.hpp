// `annulus run` with strategy stream: each rank on its own reads and computes blocks and writes them to the result.
#pragma once

#include <functional>

#include "annulus/app/job/long_run.hpp"
#include "annulus/report/measurements.hpp"

namespace annulus::app {

/// Computes a checked job. Calls `finish` with what was measured; `finish` returns the record for the file. Empty if
/// units are left; `rest` then says why. Collective.
std::optional<report::Measurements> compute_blocks(
    const Job& job, const std::function<store::Record(const report::Measurements&)>& finish,
    const comm::Communicator& comm, WhyUnfinished& rest);

}  // namespace annulus::app
