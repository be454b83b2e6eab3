// `annulus run` with strategy stream: block after block out of the input into the result, by each rank on its own.
#pragma once

#include <functional>

#include "annulus/app/job/long_run.hpp"
#include "annulus/report/measurements.hpp"

namespace annulus::app {

/// From the checked job to its result; nothing where units are left: `rest` says why. `finish` makes the record of what
/// was measured. Collective.
std::optional<report::Measurements> compute_blocks(
    const Job& job, const std::function<store::Record(const report::Measurements&)>& finish,
    const comm::Communicator& comm, WhyUnfinished& rest);

}  // namespace annulus::app
